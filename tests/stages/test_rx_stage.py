"""The Rx stage as a citizen of a stream: demand in results, bounded overflow, virtual time, errors, early completion."""

from __future__ import annotations

import itertools
import threading

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from streamactors import Source
from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from streamactors.engine.element.graph_stage_logic import GraphStageLogic
from streamactors.engine.marks.marks import EXACT, EXACT_MEMORY, OPAQUE
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.stage import Stage
from streamactors.errors import BufferOverflow, StageFailed
from streamactors.stages.rx.from_observable import FromObservable
from streamactors.stages.rx.pipeline import Rx, _RxLogic
from streamactors.stages.sources.iterables import FromIterable, Range
from streamactors.stages.transform.mapping import Map
from streamactors.testing import TestSink
from tests.engine.graphs import Collect, chain


@pytest.fixture
def system():
    with ActorSystem("rx") as system:
        yield system


@pytest.fixture
def virtual():
    clock = VirtualClock()
    with ActorSystem("rx-virtual", clock=clock) as system:
        yield clock, system


class Ask(Stage):
    """Ask upstream for `n` elements in all, then stay silent; say what came."""

    def __init__(self, n, into):
        self._n = n
        self._into = into

    def logic(self):
        return _AskLogic(self._n, self._into)


class _AskLogic(GraphStageLogic):
    prefetch = 1

    def __init__(self, n, into):
        self._left = n
        self._into = into

    def _more(self):
        if self._left:
            self._left -= 1
            self.pull(self.in_)

    def pre_start(self):
        self._more()

    def on_pull(self, outlet):
        pass

    def on_push(self, inlet):
        self._into.append(self.grab(inlet))
        self._more()


def test_demand_is_counted_in_results_so_an_expanding_operator_is_fed_one_element_first(virtual):
    clock, system = virtual
    fed, got = [], []

    def seen(x):
        fed.append(x)
        return x

    expand = Rx(ops.flat_map(lambda x: reactivex.from_iterable(range(100))))
    materialize(chain(Range(0, 10_000), Map(seen), expand, Ask(250, got), Collect()), system)
    clock.settle()
    assert len(got) == 250
    assert len(fed) <= 3 + 1024, "the source may have handed over a slice, no more"
    assert len(fed) < 1_100


def test_one_element_that_expands_beyond_max_buffer_fails_with_the_way_out(system):
    expand = Rx(ops.flat_map(lambda x: reactivex.from_iterable(range(5_000))), max_buffer=1_000)
    error = materialize(chain(Range(0, 3), expand, Collect()), system).exception(10)
    assert isinstance(error, BufferOverflow)
    assert "max_buffer=1000" in str(error)


@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop_head", range(10, 20)), ("drop_new", range(1, 11)), ("drop_tail", [*range(1, 10), 19])]
)
def test_overflow_policies_keep_what_they_say(virtual, overflow, kept):
    clock, system = virtual
    got = []
    expand = Rx(ops.flat_map(lambda x: reactivex.from_iterable(range(20))), max_buffer=10, overflow=overflow)
    subject = Subject()
    expand_nothing_asked = chain(FromObservable(subject), expand, Gate(), Collect(got))
    gate_open = materialize_with_gate(expand_nothing_asked, system)
    subject.on_next(1)
    clock.settle()
    gate_open()
    subject.on_completed()
    clock.settle()
    assert got == [0, *kept], "one result was asked for, ten may wait"


class Gate(Stage):
    """Ask for one element, then for nothing until the gate is opened."""

    opened = None

    def logic(self):
        return _GateLogic()


class _GateLogic(GraphStageLogic):
    prefetch = 1
    last = None

    def pre_start(self):
        _GateLogic.last = self.async_callback(self._open)
        self._is_open = False
        self.pull(self.in_)

    def _open(self, _):
        self._is_open = True
        if not self.has_been_pulled(self.in_) and not self.is_closed(self.in_):
            self.pull(self.in_)

    def on_pull(self, outlet):
        pass

    def on_push(self, inlet):
        self.emit(self.out, self.grab(inlet))
        if self._is_open:
            self.pull(inlet)


def materialize_with_gate(module, system):
    materialize(module, system)
    system.clock.settle()
    return lambda: _GateLogic.last.invoke(None)


def test_early_completion_stops_the_source_and_delivers_what_was_taken(system):
    assert materialize(chain(Range(0, 10**9), Rx(ops.take(3)), Collect()), system).result(10) == [0, 1, 2]


def test_an_error_comes_after_the_results_made_before_it_and_names_stage_and_element(system):
    got = []
    error = materialize(
        chain(FromIterable([10, 5, 0, 1]), Rx(ops.map(lambda x: 10 // x)), Collect(got)), system
    ).exception(10)
    assert isinstance(error, ZeroDivisionError)
    assert got == [1, 2]
    assert any("rx" in note and "element 0" in note for note in error.__notes__)


def test_an_error_from_upstream_goes_through_the_operators(system):
    def fails(x):
        if x == 3:
            raise KeyError("three")
        return x

    caught = Rx(ops.catch(lambda error, _: reactivex.of(f"caught {error}")))
    assert materialize(chain(Range(0, 9), Map(fails), caught, Collect()), system).result(10)[-1] == "caught 'three'"


def test_cancelling_disposes_the_subscription(system):
    gone = threading.Event()
    stream = chain(Range(0, 10**9), Rx(ops.finally_action(gone.set)), Rx(ops.take(1)), Collect())
    materialize(stream, system).result(10)
    assert gone.wait(10)


def test_time_operators_follow_the_systems_clock(virtual):
    clock, system = virtual
    got = []
    future = materialize(chain(FromIterable([1, 2, 3]), Rx(ops.delay(3600.0)), Collect(got)), system)
    clock.advance("59m")
    assert got == []
    clock.advance("2m")
    assert future.result(10) == [1, 2, 3]


def test_buffer_with_time_emits_without_input_and_keeps_the_tail(virtual):
    clock, system = virtual
    subject, got = Subject(), []
    future = materialize(chain(FromObservable(subject), Rx(ops.buffer_with_time(1.0)), Collect(got)), system)
    clock.settle()
    for x in (1, 2, 3):
        subject.on_next(x)
    clock.settle()
    clock.advance("1s")
    subject.on_next(4)
    clock.settle()
    clock.advance("1s")
    subject.on_completed()
    clock.settle()
    assert future.result(10)[:2] == [[1, 2, 3], [4]]


def test_debounce_passes_the_last_of_a_burst(virtual):
    clock, system = virtual
    subject, got = Subject(), []
    materialize(chain(FromObservable(subject), Rx(ops.debounce(0.5)), Collect(got)), system)
    clock.settle()
    for x in (1, 2, 3):
        subject.on_next(x)
        clock.advance("100ms")
    clock.advance("1s")
    assert got == [3]


def test_results_from_a_foreign_thread_are_brought_over_to_the_island(system):
    async_results = Rx(ops.flat_map(lambda x: reactivex.of(x, x).pipe(ops.observe_on(NewThreadScheduler()))))
    result = materialize(chain(Range(0, 50), async_results, Collect()), system).result(10)
    assert sorted(result) == sorted(list(range(50)) * 2)


class Emitted:
    """An operator that forgets its source; the test emits in its place, on a thread of its own."""

    def __init__(self):
        self.subscribed = threading.Event()

    def __call__(self, source):
        return reactivex.create(self._subscribe)

    def _subscribe(self, observer, scheduler):
        self.observer = observer
        self.subscribed.set()
        return Disposable()


@pytest.mark.parametrize("failure", [None, ValueError("behind the result")])
def test_a_result_from_a_foreign_thread_right_before_the_end_is_not_lost(system, monkeypatch, failure):
    # The island has taken the results -> another thread emits one more, and ends -> the island looks whether the operators have ended.
    hand_on = _RxLogic._hand_on
    emitted = Emitted()

    def beside(self, chunk):
        hand_on(self, chunk)
        if chunk == [1]:
            emitted.observer.on_next(2)
            emitted.observer.on_completed() if failure is None else emitted.observer.on_error(failure)

    monkeypatch.setattr(_RxLogic, "_hand_on", beside)
    probe = Source.never().rx(emitted).run_with(TestSink.probe(), system)
    assert emitted.subscribed.wait(10)
    probe.request(9)
    emitted.observer.on_next(1)
    probe.expect_next(1, 2)
    if failure is None:
        probe.expect_complete()
    else:
        assert probe.expect_error() is failure


def test_marks_pass_pipelines_that_hold_nothing_and_stop_at_others():
    assert Rx(ops.map(str), ops.filter(bool)).handling == EXACT
    assert Rx(ops.pairwise(), ops.distinct_until_changed()).handling == EXACT_MEMORY
    assert Rx(ops.group_by(abs)).handling == OPAQUE
    assert Rx(ops.observe_on(NewThreadScheduler())).handling == OPAQUE
    assert Rx(ops.map(str), ops.flat_map(reactivex.of), holds=False).handling.passes
    assert Rx(ops.map(str), holds=True).handling == OPAQUE
    assert Rx(lambda source: source).handling == OPAQUE


def endless(*_):
    return reactivex.from_iterable(itertools.count())


@pytest.mark.parametrize(
    "operator",
    [ops.flat_map(endless), ops.merge(endless()), ops.concat(endless()), ops.flat_map(ops.retry()(endless()))],
)
def test_an_observable_that_emits_at_once_and_for_ever_fails_the_stage_instead_of_holding_its_thread(system, operator):
    error = materialize(chain(Range(0, 3), Rx(operator, max_buffer=500), Collect()), system).exception(30)
    assert isinstance(error, BufferOverflow)
    assert "max_buffer=500" in str(error)


@pytest.mark.parametrize(
    ("operator", "first"),
    [
        (ops.flat_map(endless), [0, 1, 2, 3, 4]),
        (ops.concat_map(endless), [0, 1, 2, 3, 4]),
        (ops.concat(endless()), ["an element", 0, 1, 2, 3]),
    ],
)
def test_of_an_observable_that_never_ends_a_part_may_be_taken(system, operator, first):
    source = FromIterable(["an element"])
    assert materialize(chain(source, Rx(operator, ops.take(5)), Collect()), system).result(30) == first


def test_retry_loses_only_the_element_that_failed(system):
    def refuse_500(x: int) -> int:
        return x if x != 500 else x // 0

    kept = materialize(chain(Range(0, 2_000), Rx(ops.map(refuse_500), ops.retry()), Collect()), system).result(30)
    assert kept == [*range(500), *range(501, 2_000)]


def test_who_subscribes_to_an_ended_stream_hears_its_end(system):
    def run(source, operator):
        return materialize(chain(source, Rx(operator), Collect()), system)

    assert run(Range(0, 3), ops.repeat(3)).result(30) == [0, 1, 2]
    failing = FromObservable(reactivex.throw(KeyError("upstream")))
    assert isinstance(run(failing, ops.retry(3)).exception(30), KeyError)
    for source, operator in ((Range(0, 3), ops.repeat()), (failing, ops.retry())):
        with pytest.raises(StageFailed, match="to a stream that has ended; give repeat or retry a number"):
            run(source, operator).result(30)
