"""Cases that the laws do not tell one by one: ends, last marks, states, supervision, bad arguments."""

from __future__ import annotations

import logging

import pytest

from streamactors.engine.attributes import Attributes
from streamactors.engine.causes import NonFailureCancellation
from streamactors.engine.marks import EndOfInput
from streamactors.engine.supervision import restarting, resuming
from streamactors.errors import BuildError, NoSuchElement, StreamLimitReached
from streamactors.stages.async_ import Ask, MapAsync, MapAsyncPartitioned
from streamactors.stages.buffer import Buffer, Detach
from streamactors.stages.expanding import Intersperse, MapChunks, MapConcat
from streamactors.stages.extrapolating import Expand, Extrapolate
from streamactors.stages.filter import DropRepeated, DropWhile, TakeUntil, TakeWhile
from streamactors.stages.fold import Fold, Reduce, Scan, StatefulMap
from streamactors.stages.grouping import Grouped, Sliding
from streamactors.stages.limit import Drop, Limit, LimitWeighted, Take
from streamactors.stages.rate import Batch, BatchWeighted, Conflate
from streamactors.stages.throttle import Throttle
from streamactors.stages.timed import GroupedWithin
from streamactors.stages.watching import Log, WatchTermination
from tests.stages.harness import KEY, Bench

RESUME = Attributes(decider=resuming)
RESTART = Attributes(decider=restarting)


# ── ends and last marks ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mark_right_behind_the_last_element_taken_passes_and_none_behind_what_was_thrown_away(timeless):
    for stage in (Take(2), TakeWhile(lambda x: x < 1, inclusive=True), TakeUntil(lambda x: x == 1)):
        with Bench(timeless, stage) as bench:
            bench.send(0, 1)
            bench.mark()
            bench.send(2)
            bench.mark()
            bench.request(5)
            assert bench.seen == [("element", 0), ("element", 1), ("mark", 2)]
            assert bench.end == "completed"


def test_take_while_lets_no_mark_pass_behind_the_element_it_did_not_take(timeless):
    for chunks in ([[0, 1, 2]], [[0], [1], [2]], [[0, 1], [2]], [[0], [1, 2]]):
        with Bench(timeless, TakeWhile(lambda x: x < 1)) as bench:
            for chunk in chunks:
                bench.send(*chunk)
                bench.mark()
            bench.request(5)
            expected = [("element", 0), ("mark", 1)] if len(chunks[0]) == 1 else [("element", 0)]
            assert bench.seen == expected
            assert bench.end == "completed"


def test_take_cancels_upstream_and_needs_no_more_demand_to_complete(timeless):
    with Bench(timeless, Take(2)) as bench:
        bench.request(2)
        bench.send(1, 2)
        assert bench.end == "completed"
        assert isinstance(bench.cancelled, NonFailureCancellation)


def test_take_nothing_completes_without_demand(timeless):
    with Bench(timeless, Take(0)) as bench:
        assert bench.end == "completed"
        assert bench.source.peak == 0


def test_map_concat_completes_without_further_demand_when_the_last_result_is_out(timeless):
    for last in ([5, 6], (5, 6), iter([5, 6])):
        with Bench(timeless, MapConcat(lambda x, last=last: last)) as bench:
            bench.request(2)
            bench.send(1)
            bench.complete()
            assert (bench.received, bench.end) == ([5, 6], "completed")


def test_map_concat_reads_an_endless_iterator_by_demand(timeless):
    read = []

    def endless(x):
        try:
            while True:
                read.append(x)
                yield x
        finally:
            read.append("closed")

    with Bench(timeless, MapConcat(endless)) as bench:
        bench.request(3)
        bench.send(7)
        assert bench.received == [7, 7, 7]
        assert read == [7] * 4, "one ahead"
        bench.cancel()
        assert read[-1] == "closed"


def test_map_concat_drops_the_rest_of_an_iterator_that_raised(timeless):
    def twice(x):
        yield x
        if x == 1:
            raise ValueError("in the middle")
        yield x

    with Bench(timeless, MapConcat(twice), RESUME) as bench:
        bench.request(10)
        bench.send(0, 1, 2)
        assert bench.received == [0, 0, 1, 2, 2]
    with Bench(timeless, MapConcat(twice)) as bench:
        bench.request(10)
        bench.send(0, 1, 2)
        assert bench.received == [0, 0, 1]
        assert "in stage map_concat, element 1" in bench.end.__notes__[0]


def test_map_concat_of_something_that_is_no_iterable_names_the_element(timeless):
    with Bench(timeless, MapConcat(lambda x: x)) as bench:
        bench.request(1)
        bench.send(3)
        assert isinstance(bench.end, TypeError)
        assert "element 3" in bench.end.__notes__[0]


def test_map_chunks_gives_a_list_of_its_own_and_takes_any_iterable(timeless):
    numpy = pytest.importorskip("numpy")

    def doubled(chunk):
        result = numpy.asarray(chunk) * 2
        chunk.clear()  # theirs to change
        return result

    with Bench(timeless, MapChunks(doubled)) as bench:
        bench.request(10)
        bench.send(1, 2, 3)
        assert bench.received == [2, 4, 6]


def test_sliding_holds_a_mark_until_the_last_list_with_an_element_from_before_it(timeless):
    with Bench(timeless, Sliding(3)) as bench:
        bench.request(10)
        bench.send(0, 1, 2)
        bench.mark()
        bench.send(3)
        bench.send(4)
        bench.send(5)
        assert bench.seen == [
            ("element", [0, 1, 2]),
            ("element", [1, 2, 3]),
            ("element", [2, 3, 4]),
            ("mark", 3),
            ("element", [3, 4, 5]),
        ]


def test_grouped_lets_a_mark_between_two_lists_pass_at_once_and_merges_those_it_holds(timeless):
    with Bench(timeless, Grouped(2)) as bench:
        bench.request(10)
        bench.send(0, 1)
        bench.mark()
        assert bench.seen == [("element", [0, 1]), ("mark", 2)]
        bench.send(2)
        bench.mark()
        bench.mark(3)
        bench.put(EndOfInput(KEY))
        bench.complete()
        assert bench.seen[2:] == [("element", [2]), ("mark", 3), ("signal", EndOfInput(KEY))]


def test_fold_and_reduce_give_their_marks_behind_the_result_only(timeless):
    for stage, result in ((Fold(0, lambda a, x: a + x), 3), (Reduce(lambda a, x: a + x), 3)):
        with Bench(timeless, stage) as bench:
            bench.request(1)
            bench.send(1)
            bench.mark()
            bench.send(2)
            bench.mark()
            bench.complete()
            assert bench.seen == [("element", result), ("mark", 2)]


def test_a_buffer_that_drops_moves_the_positions_on(timeless):
    with Bench(timeless, Buffer(2, "drop_head")) as bench:
        for x in range(4):
            bench.send(x)
            bench.mark()
        assert bench.seen == [("mark", 1), ("mark", 2)], "what was dropped is done"
        bench.request(2)
        assert bench.seen[2:] == [("element", 2), ("mark", 3), ("element", 3), ("mark", 4)]
    with Bench(timeless, Buffer(2, "drop_new")) as bench:
        for x in range(4):
            bench.send(x)
            bench.mark()
        bench.request(2)
        assert bench.seen == [("element", 0), ("mark", 1), ("element", 1), ("mark", 4)]


# ── state, and what supervision does to it ────────────────────────────────────────────────────────────────────────────


def closing(closed):
    def close(state):
        closed.append(state)
        return ("closed", state)

    return close


def fragile(state, x):
    if x == 0:
        raise ZeroDivisionError("zero")
    return state + 1, x


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "raise"])
def test_stateful_map_closes_its_state_once_however_the_stream_ends(timeless, end):
    closed = []
    with Bench(timeless, StatefulMap(lambda: 0, fragile, closing(closed))) as bench:
        bench.request(10)
        bench.send(5, 6)
        if end == "complete":
            bench.complete()
        elif end == "fail":
            bench.fail(ValueError("upstream"))
        elif end == "cancel":
            bench.cancel()
        else:
            bench.send(0)
        assert closed == [2]
        assert bench.stopped
        assert bench.received == [5, 6] + ([("closed", 2)] if end != "cancel" else [])
        assert (bench.end == "completed") is (end == "complete")
        assert closed == [2]


def test_what_stateful_map_gives_last_waits_for_demand_even_before_a_failure(timeless):
    with Bench(timeless, StatefulMap(lambda: 0, fragile, closing([]))) as bench:
        bench.request(1)
        bench.send(5)
        bench.fail(error := ValueError("upstream"))
        assert bench.end is None
        bench.request(1)
        assert bench.received == [5, ("closed", 1)]
        assert bench.end is error


def test_stateful_map_keeps_its_state_on_resume_and_makes_a_new_one_on_restart(timeless):
    for attributes, expected in ((RESUME, [5, 6, ("closed", 2)]), (RESTART, [5, ("closed", 1), 6, ("closed", 1)])):
        with Bench(timeless, StatefulMap(lambda: 0, fragile, closing([])), attributes) as bench:
            bench.request(10)
            bench.send(5, 0, 6)
            bench.complete()
            assert bench.received == expected


def test_stateful_map_whose_functions_raise_at_the_ends_fails_the_stream(timeless):
    def explode(*_):
        raise ValueError("explode")

    with Bench(timeless, StatefulMap(explode, fragile)) as bench:
        assert isinstance(bench.end, ValueError)
    with Bench(timeless, StatefulMap(lambda: 0, fragile, explode)) as bench:
        bench.complete()
        assert isinstance(bench.end, ValueError)
        assert "in stage stateful_map" in bench.end.__notes__[0]


def test_scan_goes_back_to_zero_on_restart_and_keeps_its_value_on_resume(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    for attributes, expected in ((RESUME, [0, 1, 4, 9, 16]), (RESTART, [0, 1, 4, 0, 5, 12])):
        with Bench(timeless, Scan(0, add), attributes) as bench:
            bench.request(10)
            bench.send(1, 3, -1, 5, 7)
            assert bench.received == expected


def test_scan_emits_zero_also_when_there_is_no_element(timeless):
    with Bench(timeless, Scan(7, lambda a, x: a + x)) as bench:
        bench.complete()
        assert bench.end is None, "zero has not been asked for"
        bench.request(1)
        assert (bench.received, bench.end) == ([7], "completed")


def test_fold_and_reduce_forget_on_restart(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    cases = [
        (Fold(10, add), RESUME, 16),
        (Fold(10, add), RESTART, 15),
        (Reduce(add), RESUME, 6),
        (Reduce(add), RESTART, 5),
    ]
    for stage, attributes, expected in cases:
        with Bench(timeless, stage, attributes) as bench:
            bench.request(1)
            bench.send(1, -1, 5)
            bench.complete()
            assert bench.received == [expected]


def test_reduce_of_nothing_fails_and_reduce_of_none_is_none(timeless):
    with Bench(timeless, Reduce(lambda a, x: x)) as bench:
        bench.request(1)
        bench.complete()
        assert isinstance(bench.end, NoSuchElement)
    with Bench(timeless, Reduce(lambda a, x: x)) as bench:
        bench.request(1)
        bench.send(None)
        bench.complete()
        assert bench.received == [None]


def test_drop_while_and_drop_repeated_resume_behind_what_raised(timeless):
    def below(x):
        return x < 10 // (x - 1)

    with Bench(timeless, DropWhile(below), RESUME) as bench:
        bench.request(10)
        bench.send(2, 1, 0, 5)
        assert bench.received == [0, 5]

    def same(a, b):
        return a // b == 1

    for attributes, expected in ((RESUME, [4, 9]), (RESTART, [4, 4, 9])):
        with Bench(timeless, DropRepeated(same), attributes) as bench:
            bench.request(10)
            bench.send(4, 4, 0, 4, 9)
            assert bench.received == expected


def test_drop_repeated_compares_with_the_last_one_emitted_none_included(timeless):
    with Bench(timeless, DropRepeated()) as bench:
        bench.request(10)
        bench.send(None, None, 1, 1, None, 2)
        assert bench.received == [None, 1, None, 2]


def test_limit_fails_with_the_element_too_many_behind_those_before(timeless):
    for stage in (Limit(2), LimitWeighted(4, lambda x: 2)):
        with Bench(timeless, stage) as bench:
            bench.request(10)
            bench.send(1, 2)
            assert bench.end is None
            bench.send(3, 4)
            assert bench.received == [1, 2]
            assert isinstance(bench.end, StreamLimitReached)
    with Bench(timeless, LimitWeighted(4, lambda x: 10 // x), RESTART) as bench:
        bench.request(10)
        bench.send(5, 5, 0, 5, 5)
        assert bench.received == [5, 5, 5, 5], "restart begins to count anew"


def test_batch_weighted_leaves_a_heavy_element_in_front_and_asks_its_cost_once(timeless):
    costs = []

    def cost(x):
        costs.append(x)
        return x

    with Bench(timeless, BatchWeighted(10, cost, lambda x: [x], lambda acc, x: [*acc, x])) as bench:
        bench.send(4, 5, 3, 2)
        assert bench.asked == 0
        bench.request(1)
        assert bench.received == [[4, 5]]
        assert costs[:3] == [4, 5, 3]
        bench.request(5)
        bench.complete()
        assert bench.received == [[4, 5], [3, 2]]


def test_conflate_forgets_what_it_has_on_restart(timeless):
    def add(total, x):
        if x < 0:
            raise ValueError("negative")
        return total + x

    for attributes, expected in ((RESUME, 8), (RESTART, 5)):
        with Bench(timeless, Conflate(add), attributes) as bench:
            for x in (1, 2, -1, 5):
                bench.send(x)
            bench.request(1)
            assert bench.received == [expected]


def test_batch_on_upstream_failure_gives_up_what_it_has(timeless):
    with Bench(timeless, Batch(5, lambda x: [x], lambda acc, x: [*acc, x])) as bench:
        bench.send(1)
        bench.fail(error := ValueError("upstream"))
        bench.request(1)
        assert (bench.received, bench.end) == ([], error)


def test_expand_fills_demand_while_upstream_is_silent_and_takes_new_elements_first(timeless):
    with Bench(timeless, Expand(lambda x: iter([x, x, x]))) as bench:
        bench.request(2)
        assert bench.received == []
        bench.send(1)
        assert bench.received == [1, 1]
        bench.send(2)
        bench.request(5)
        assert bench.received == [1, 1, 2, 2, 2]


def test_extrapolate_starts_with_its_initial_element(timeless):
    with Bench(timeless, Extrapolate(lambda x: [x + 100], initial=0)) as bench:
        bench.request(2)
        assert bench.received == [0, 100]
        bench.send(1)
        bench.request(5)
        assert bench.received == [0, 100, 1, 101]
    with Bench(timeless, Extrapolate(lambda x: [], initial=None)) as bench:
        bench.complete()
        bench.request(1)
        assert (bench.received, bench.end) == ([None], "completed")


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_extrapolate_whose_function_raises_fails_when_it_is_needed(timeless, kind):
    def explode(_):
        raise kind("explode")

    with Bench(timeless, Extrapolate(explode)) as bench:
        bench.request(1)
        bench.send(1)
        assert bench.received == [1]
        bench.request(1)
        assert type(bench.end) is kind


def test_detach_is_one_ahead_and_gives_the_last_element_without_demand_at_completion(timeless):
    with Bench(timeless, Detach()) as bench:
        assert bench.asked == 1
        bench.send(1)
        bench.complete()
        assert bench.end is None
        bench.request(1)
        assert (bench.received, bench.end) == ([1], "completed")


# ── looking on ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_log_tells_of_elements_and_ends(timeless, caplog):
    with caplog.at_level(logging.INFO, logger="streamactors.stream"):
        with Bench(timeless, Log("flights", extract=lambda x: x * 2, level=logging.INFO)) as bench:
            bench.request(5)
            bench.send(1, 2)
            bench.complete()
            assert bench.received == [1, 2]
        with Bench(timeless, Log("flights")) as bench:
            bench.fail(ValueError("broken"))
        with Bench(timeless, Log("flights", level=logging.INFO)) as bench:
            bench.cancel()
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "[flights] element: 2",
        "[flights] element: 4",
        "[flights] completed",
        "[flights] failed: ValueError: broken",
        "[flights] cancelled: no more elements needed",
    ]


@pytest.mark.parametrize("end", ["complete", "cancel", "fail", "cancel with an error"])
def test_watch_termination_tells_how_it_ended(timeless, end):
    with Bench(timeless, WatchTermination()) as bench:
        future = bench.value
        bench.request(1)
        bench.send(1)
        assert not future.done()
        error = ValueError("broken")
        {
            "complete": bench.complete,
            "cancel": bench.cancel,
            "fail": lambda: bench.fail(error),
            "cancel with an error": lambda: bench.cancel(error),
        }[end]()
        assert future.exception(1) is (None if end in ("complete", "cancel") else error)


# ── bad arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def coroutine_function(x):
    return x


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Take(-1), "take: n must be at least 0, got -1"),
        (lambda: Take("3"), "take: n must be an integer, got str"),
        (lambda: Take(True), "take: n must be an integer, got bool"),
        (lambda: Drop(-1), "drop: n must be at least 0"),
        (lambda: Limit(-1), "limit: n must be at least 0"),
        (lambda: Grouped(0), "grouped: n must be at least 1, got 0"),
        (lambda: Sliding(2, 0), "sliding: step must be at least 1"),
        (lambda: TakeWhile(3), "take_while expects a function, got int 3"),
        (lambda: TakeWhile(coroutine_function), "take_while expects a plain function, got the coroutine function"),
        (lambda: MapConcat(coroutine_function), "map_concat expects a plain function"),
        (lambda: Fold(0, None), "fold expects a function"),
        (lambda: StatefulMap(0, lambda s, x: (s, x)), "stateful_map expects a function, got int 0"),
        (lambda: Buffer(0), "buffer: n must be at least 1"),
        (lambda: Buffer(1, "drop"), "strategy must be one of backpressure, drop_head"),
        (lambda: Batch(0, list, list), "batch: max_elements must be at least 1"),
        (lambda: Throttle(0), "throttle: n must be at least 1"),
        (lambda: Throttle(1, 0), "throttle: per must be more than 0"),
        (lambda: Throttle(1, "1s", mode="strict"), 'mode must be "shaping" or "enforcing"'),
        (lambda: Throttle(1, "1s", burst=0, mode="enforcing"), "burst must be at least 1"),
        (lambda: GroupedWithin(1, -5), "grouped_within: span must be more than 0"),
        (lambda: MapAsync(0, len), "map_async: parallelism must be at least 1"),
        (lambda: MapAsync(1, 5), "map_async expects a function"),
        (lambda: MapAsyncPartitioned(1, None, len), "map_async_partitioned expects a function"),
        (lambda: Ask("actor"), "ask expects the address of an actor, got str 'actor'"),
        (lambda: Log(3), "log expects a name, got int 3"),
        (lambda: Log("x", level="INFO"), "level must be a number"),
    ],
)
def test_bad_arguments_are_refused_where_they_were_written(make, text):
    with pytest.raises(BuildError) as raised:
        make()
    assert text in str(raised.value)


def test_intersperse_takes_any_element_none_included(timeless):
    with Bench(timeless, Intersperse(None, start=None)) as bench:
        bench.request(10)
        bench.send(1, 2)
        bench.complete()
        assert bench.received == [None, 1, None, 2]
