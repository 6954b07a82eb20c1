"""RxPY operators that hold elements behind a source that reads marks: a mark passes when what it covers has left the operator."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from streamactors import ActorSystem, BuildError, Flow, Sink, Source
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import BLURS, BLURS_MEMORY, EXACT, EXACT_MEMORY, OPAQUE
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.stages.rx.pipeline import Rx
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, check_run
from tests.stages.test_laws_simple import SLOW_OK


class Followed(Rx):
    """With its gates also in the bench, whose run has no reader of marks."""

    def logic(self) -> Logic:
        logic: Any = super().logic()
        logic._follows = lambda: True
        return logic


def in_order(received: list[Any], sent: list[int], completed: bool) -> None:
    flat = [x for result in received for x in (result if isinstance(result, list | tuple) else [result])]
    assert flat == sorted(set(flat))
    assert set(flat) <= set(sent)


def everything(received: list[Any], sent: list[int], completed: bool) -> None:
    in_order(received, sent, completed)
    if completed:
        assert [x for result in received for x in result] == sent


def threes(xs: list[int]) -> list[list[int]]:
    return [xs[i : i + 3] for i in range(0, len(xs), 3)]


def later(x: int) -> Any:
    """Both results of an element, the second some ms later."""
    return reactivex.concat(reactivex.of((x,)), reactivex.timer(0.004 + x % 3 / 200).pipe(ops.map(lambda _: (x,))))


def twice(xs: list[int]) -> list[tuple[int]]:
    return [(x,) for x in xs for _ in range(2)]


def pairs(received: list[Any], sent: list[int], completed: bool) -> None:
    if completed:
        assert sorted(received) == sorted(twice(sent))


def no_more_than_twice(received: list[Any], sent: list[int], completed: bool) -> None:
    assert all(received.count((x,)) <= 2 for x in sent)


def case(*operators: Any, **options: Any) -> Case:
    return Case(lambda hook: Followed(*operators), demand=None, calls=False, step_ms=1_000, **options)


CASES = {
    "debounce": case(ops.debounce(0.01), verify=in_order),
    "sample": case(ops.sample(0.007), verify=in_order),
    "delay": case(ops.delay(0.01), loses_on_failure=True),
    "buffer_with_count": case(ops.buffer_with_count(3), model=threes),
    "buffer_with_count_and_gaps": case(ops.buffer_with_count(2, 3), verify=in_order),
    "buffer_with_time": case(ops.buffer_with_time(0.01), ops.filter(bool), verify=everything),
    "buffer_with_time_or_count": case(ops.buffer_with_time_or_count(0.01, 2), ops.filter(bool), verify=everything),
    "flat_map": case(ops.flat_map(lambda x: reactivex.of((x,), (x,))), model=twice),
    "flat_map_of_lists": case(ops.flat_map(lambda x: [(x,), (x,)]), model=twice),
    "flat_map_later": case(ops.flat_map(later), model=twice, verify=pairs),
    "map_and_merge_all": case(ops.map(later), ops.merge_all(), model=twice, verify=pairs),
    "concat_map_later": case(ops.concat_map(later), model=twice),
    "switch_map_later": case(ops.switch_map(later), verify=no_more_than_twice),
    "flat_map_latest_later": case(ops.flat_map_latest(later), verify=no_more_than_twice),
    "several": case(
        ops.filter(lambda x: x % 5), ops.buffer_with_count(2), ops.delay(0.005), ops.debounce(0.003), ops.flat_map(lambda xs: [xs]),
        verify=in_order,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_an_operator_that_holds_elements_keeps_the_laws_of_marks(timeless, name, run):
    check_run(CASES[name], timeless, run)


def test_a_debounced_element_holds_its_mark_until_it_is_emitted_or_replaced(timeless):
    with Bench(timeless, Followed(ops.debounce(1.0))) as bench:
        bench.request(10)
        bench.send(0)
        bench.mark()
        assert bench.marks == []
        bench.send(1)
        assert bench.marks == [1], "element 0 was replaced"
        bench.mark()
        bench.advance("1s")
        assert bench.seen == [("mark", 1), ("element", 1), ("mark", 2)]


def test_an_element_whose_observable_is_left_for_another_holds_its_mark_no_more(timeless):
    inner: dict[int, Subject[Any]] = {}

    def of(x: int) -> Any:
        inner[x] = Subject()
        return inner[x]

    with Bench(timeless, Followed(ops.switch_map(of))) as bench:
        bench.request(10)
        bench.send(0)
        bench.mark()
        inner[0].on_next("a")
        timeless.clock.settle()
        assert bench.seen == [("element", "a")]
        bench.send(1)
        assert bench.marks == [1]
        bench.mark()
        inner[1].on_completed()
        timeless.clock.settle()
        assert bench.marks == [1, 2]


def test_results_of_another_thread_stay_before_the_mark_that_covers_them():
    positions: list[int] = []
    seen: set[int] = set()

    def note(x: int) -> None:
        seen.add(x)

    def check(position: int) -> None:
        assert set(range(position)) <= seen
        positions.append(position)

    slow = ops.flat_map(lambda x: reactivex.of(x).pipe(ops.observe_on(NewThreadScheduler())))
    source = Source.range(0, 200).with_replay(marks_at=range(0, 200, 5), on_done=check).max_chunk(5)
    source.via(Flow.rx(slow)).run_with(Sink.foreach(note)).result(20)
    assert positions[-1] == 200


def test_nothing_is_done_that_a_buffer_still_holds():
    positions: list[int] = []
    queue: list[list[int]] = []
    with ActorSystem("rx-marks") as system:
        source = Source.range(0, 10).with_replay(marks_at=range(10), on_done=positions.append).concat(Source.never())
        done = source.via(Flow.rx(ops.buffer_with_count(4))).run_with(Sink.foreach(queue.append), system)
        with pytest.raises(TimeoutError):
            done.result(0.3)
    assert queue == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert max(positions) <= 8


def test_handling_says_what_an_operator_does():
    for operator, handling in (
        (ops.debounce(1.0), EXACT_MEMORY),
        (ops.throttle_with_timeout(1.0), EXACT_MEMORY),
        (ops.sample(1.0), EXACT_MEMORY),
        (ops.delay(1.0), EXACT),
        (ops.buffer_with_count(3), BLURS_MEMORY),
        (ops.buffer(reactivex.interval(1.0)), BLURS_MEMORY),
        (ops.flat_map(reactivex.of), BLURS),
        (ops.switch_latest(), BLURS_MEMORY),
        (reactivex.compose(ops.map(reactivex.of), ops.merge_all()), BLURS),
    ):
        assert Rx(operator).handling == handling
    assert Rx(ops.flat_map(reactivex.of), holds=False).handling.passes
    assert Rx(ops.flat_map(reactivex.of), holds=True).handling == OPAQUE


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (
            ops.group_by(abs),
            r"rx\.group_by cannot be followed, because it emits observables.*use source\.group_by\(key, max_substreams\)",
        ),
        (ops.window_with_count(3), r"rx\.window_with_count cannot be followed.*use the buffer of the same kind"),
        (
            ops.buffer_with_count(3, 1),
            r"rx\.buffer_with_count cannot be followed, because its buffers overlap.*Flow\.sliding\(count, skip\)",
        ),
        (ops.buffer_with_time(2.0, 1.0), r"rx\.buffer_with_time cannot be followed, because its buffers overlap"),
        (ops.merge(reactivex.of(1)), r"rx\.merge cannot be followed, because the elements of the other observables"),
        (ops.observe_on(NewThreadScheduler()), r"rx\.observe_on may hold elements"),
        (lambda source: source, r"a function that is not RxPY's may hold elements"),
    ],
)
def test_an_operator_that_cannot_be_followed_says_why(operator, why):
    commits = Consumer.source(ConsumerSettings("localhost:1", group_id="g"), Subscriptions.topics("t"))
    with pytest.raises(BuildError, match=rf"cannot follow its elements through stage 'rx': {why}"):
        commits.via(Flow.rx(operator)).run_with(Sink.ignore())
