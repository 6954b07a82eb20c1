"""Sources from observables, streams as observables, and both in the DSL."""

from __future__ import annotations

import itertools
import threading
from collections import deque

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.subject import Subject

from streamactors import Sink, Source
from streamactors.actors.system import ActorSystem
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.materializing.materializer import materialize
from streamactors.errors import BufferOverflow, BuildError
from streamactors.stages.rate.strategies import make_room
from streamactors.stages.rx import from_observable
from streamactors.stages.rx.from_observable import FromObservable
from streamactors.stages.rx.pipeline import Rx
from streamactors.stages.rx.to_observer import ToObserver, as_observable
from streamactors.stages.sources.iterables import Range
from streamactors.testing import TestSink
from tests.engine.graphs import Collect, chain
from tests.stages.test_rx_stage import endless


@pytest.fixture
def system():
    with ActorSystem("rx") as system:
        yield system


@pytest.mark.parametrize(
    "observable", [endless(), reactivex.create(lambda observer, _: [observer.on_next(n) for n in itertools.count()])]
)
def test_a_source_from_an_observable_that_never_returns_fails_when_its_buffer_is_full(system, observable):
    error = materialize(chain(FromObservable(observable, max_buffer=10), Collect()), system).exception(30)
    assert isinstance(error, BufferOverflow)


def test_a_source_from_an_observable_delivers_everything_within_its_buffer(system):
    result = materialize(chain(FromObservable(reactivex.of(*range(100))), Collect()), system).result(10)
    assert result == list(range(100))


def test_a_source_from_an_observable_fails_when_its_buffer_is_full(system):
    error = materialize(chain(FromObservable(reactivex.of(*range(2_000)), max_buffer=10), Collect()), system).exception(
        10
    )
    assert isinstance(error, BufferOverflow)


@pytest.mark.parametrize(("overflow", "left"), [("drop_head", (2, 3)), ("drop_tail", (1, 2))])
def test_a_source_from_an_observable_goes_on_when_an_element_is_dropped_beside_it(system, monkeypatch, overflow, left):
    # The island counts what has come -> the observable's thread drops an element of the full buffer, and is about to append another -> the
    # island took as many as it had counted, and failed with "pop from an empty deque".
    full = []

    class Meddled(deque):
        def popleft(self):
            if full and full.pop():
                make_room(overflow, self)
            return super().popleft()

    monkeypatch.setattr(from_observable, "deque", Meddled)
    subject = Subject()
    probe = Source.from_observable(subject, overflow, max_buffer=3).run_with(TestSink.probe(), system)
    probe.ensure_subscription()
    for n in (1, 2, 3):
        subject.on_next(n)
    full.append(True)
    probe.request(3).expect_next(*left)
    subject.on_next(4)
    probe.expect_next(4)


def test_a_stream_as_an_observable_runs_once_per_subscription(system):
    module = StageModule(Range(0, 5))
    observable = as_observable(lambda sink: materialize(chain(module, sink), system))
    for _ in range(2):
        done, got = threading.Event(), []
        observable.subscribe(got.append, on_completed=done.set)
        assert done.wait(10)
        assert got == [0, 1, 2, 3, 4]


def test_disposing_a_subscription_cancels_the_stream(system):
    got, enough = [], threading.Event()
    observable = as_observable(lambda sink: materialize(chain(Range(0, 10**9), sink), system))

    def on_next(x):
        got.append(x)
        if len(got) == 5:
            enough.set()

    subscription = observable.subscribe(on_next)
    assert enough.wait(10)
    subscription.dispose()


def test_bad_arguments_are_named():
    with pytest.raises(BuildError, match="RxPY operators, got int"):
        Rx(3)
    with pytest.raises(BuildError, match="overflow must be one of"):
        Rx(ops.map(str), overflow="explode")
    with pytest.raises(BuildError, match="max_buffer"):
        Rx(ops.map(str), max_buffer=0)
    with pytest.raises(BuildError, match="observable, got list"):
        FromObservable([1])
    assert ToObserver


def test_observables_and_sources_meet_in_the_dsl(system):
    source = Source.from_observable(reactivex.of(1, 2, 3)).map(lambda x: x * 10)
    assert source.run_with(Sink.to_list(), system).result(10) == [10, 20, 30]
    done, got = threading.Event(), []
    source.as_observable(system).pipe(ops.scan(lambda a, b: a + b, 0)).subscribe(got.append, on_completed=done.set)
    assert done.wait(10)
    assert got == [10, 30, 60]
