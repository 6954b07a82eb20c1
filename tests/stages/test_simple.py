"""Cases that the laws do not tell one by one: ends, last marks, states, supervision, bad arguments."""

from __future__ import annotations

import logging

import pytest

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.marks.marks import EndOfInput
from streamactors.engine.supervision import restarting, resuming
from streamactors.errors import BuildError
from streamactors.stages.asynchronous.asking import Ask
from streamactors.stages.asynchronous.map_async import MapAsync
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned
from streamactors.stages.fold.fold import Fold, Reduce, StatefulMap
from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.fold.grouping import Grouped, Sliding
from streamactors.stages.limit.counting import Drop, Limit, Take
from streamactors.stages.limit.predicates import TakeUntil, TakeWhile
from streamactors.stages.rate.buffer import Buffer
from streamactors.stages.rate.conflate import Batch
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.transform.expanding import Intersperse, MapChunks, MapConcat
from streamactors.stages.watching.observing import Log, WatchTermination
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


@pytest.mark.expects_log("skipped: ")
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
        (lambda: Take("3"), "take: n must be an integer, got str"),
        (lambda: Take(True), "take: n must be an integer, got bool"),
        (lambda: Drop("3"), "drop: n must be an integer, got str"),
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
