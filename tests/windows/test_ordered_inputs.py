"""Tasks of several input topics: rows by head timestamp, waits, and positions that never run ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.durations import Duration
from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle, Position, Revoked
from streamactors.errors import BuildError
from streamactors.kafka import ConsumerSettings, Subscriptions
from streamactors.kafka.state.changelogs.changelog_provider import ChangelogProvider
from streamactors.windows import Record, RecordContext, TimeWindows
from streamactors.windows.stage.head_time import FAR_AHEAD, MOST_ROWS, HeadTimeOrder
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.chain import Records, tasks_of
from tests.stages.harness import Bench


class Part(NamedTuple):
    topic: str
    partition: int


LEFT, RIGHT = ("s", Part("left", 0)), ("s", Part("right", 0))
LONG = TimeWindows.of_size(1_000).with_grace(0)


def row(topic: str, timestamp: int, offset: int) -> Record:
    return Record(topic, timestamp, timestamp, RecordContext(topic, 0, offset))


def stage(max_task_idle: Duration | None = 0) -> WindowStage:
    built = Records().group_by_key(max_task_idle=max_task_idle).windowed_by(LONG).reduce(lambda _, new: new)
    return WindowStage(tasks_of(built.to_stream()))


def seen(bench: Bench) -> list[Any]:
    """Timestamps of the updates, and positions {topic: offset}."""
    return [
        x.timestamp if kind == "element" else {key[1].topic: at for key, (_, at) in x.items()}
        for kind, x in bench.sink.seen
        if kind == "element" or isinstance(x, dict)
    ]


def begin(bench: Bench, demand: int = 1_000) -> None:
    bench.request(demand)
    for key in (LEFT, RIGHT):
        bench.put(Assigned(key, 1))


def send(bench: Bench, key: Any, *timestamps: int, first: int = 0) -> None:
    bench.send(*[row(key[1].topic, at, first + i) for i, at in enumerate(timestamps)])
    bench.put({key: (1, first + len(timestamps))})


def test_T_4_the_oldest_head_goes_first_and_positions_stay_behind_it(timeless: ActorSystem) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench)
        send(bench, LEFT, 1, 5, 9)
        assert seen(bench) == []
        send(bench, RIGHT, 4, 6)
        assert [x for x in seen(bench) if isinstance(x, int)] == [1, 4, 5, 6]
        assert seen(bench)[-1] == {"left": 2, "right": 2}
        bench.cancel()


def test_T_4_what_an_input_has_is_waited_for_however_long_it_takes(timeless: ActorSystem) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench)
        send(bench, LEFT, 5)
        bench.advance("1000s")
        assert seen(bench) == []
        send(bench, RIGHT, 4)
        assert seen(bench)[0] == 4
        bench.cancel()


def test_T_4_an_input_that_has_nothing_is_waited_for_max_task_idle(timeless: ActorSystem) -> None:
    with Bench(timeless, stage("100ms")) as bench:
        begin(bench)
        send(bench, LEFT, 1)
        bench.put(Idle(RIGHT))
        bench.advance("99ms")
        assert seen(bench) == []
        bench.put(Idle(RIGHT, 50))  # told again: the wait goes on, and does not begin anew
        bench.advance("1ms")
        assert seen(bench) == [1, {"left": 1}]
        send(bench, LEFT, 2, first=1)
        assert seen(bench)[-2:] == [2, {"left": 2}], "it has been waited for"
        send(bench, RIGHT, 3)
        bench.put(Idle(LEFT))
        bench.advance("100ms")
        send(bench, LEFT, 4, first=2)
        assert 4 not in seen(bench), "it has had rows since"
        bench.cancel()


def test_T_4_a_row_that_comes_in_time_goes_first(timeless: ActorSystem) -> None:
    with Bench(timeless, stage("100ms")) as bench:
        begin(bench)
        send(bench, LEFT, 5)
        bench.put(Idle(RIGHT))
        bench.advance("99ms")
        send(bench, RIGHT, 4)
        assert seen(bench)[0] == 4
        bench.cancel()


def test_without_an_idle_time_rows_go_as_they_come(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(None)) as bench:
        begin(bench)
        send(bench, LEFT, 5)
        assert seen(bench) == [5, {"left": 1}]
        send(bench, RIGHT, 4)
        assert seen(bench)[-2:] == [4, {"right": 1}]
        bench.cancel()


@pytest.mark.parametrize(
    "bad", ["soon", -1, 0.0005, True, object()], ids=["text", "negative", "finer than a millisecond", "bool", "object"]
)
def test_an_idle_time_that_is_no_duration_is_refused(bad: Any) -> None:
    for begin_ in (
        lambda: Records().group_by_key(max_task_idle=bad),
        lambda: Records().to_table(max_task_idle=bad),
    ):
        with pytest.raises(BuildError, match="max_task_idle"):
            begin_()


def test_an_input_whose_rows_are_filtered_away_lets_go_what_was_held_by_then(timeless: ActorSystem) -> None:
    """Its positions come without rows: it is there, and has nothing to go first. Silence would never be told of it."""
    with Bench(timeless, stage()) as bench:
        begin(bench)
        send(bench, LEFT, 1)
        assert seen(bench) == []
        bench.put({RIGHT: (1, 500)})
        assert seen(bench)[0] == 1
        assert seen(bench)[-1] == {"left": 1, "right": 500}
        send(bench, LEFT, 2, first=1)
        assert 2 not in seen(bench), "it may have rows next time"
        bench.put({RIGHT: (1, 900)})
        assert 2 in seen(bench)
        bench.cancel()


@pytest.mark.parametrize("signal", [Idle(RIGHT), EndOfInput(RIGHT), Revoked(RIGHT)], ids=lambda s: type(s).__name__)
def test_T_4_an_input_known_to_be_silent_is_not_waited_for(timeless: ActorSystem, signal: Any) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench)
        send(bench, LEFT, 1)
        assert seen(bench) == []
        bench.put(signal)
        assert seen(bench) == [1, {"left": 1}]
        bench.cancel()


def test_the_end_of_the_stream_takes_what_is_held(timeless: ActorSystem) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench, 1)
        send(bench, LEFT, 1, 2)
        bench.complete()
        bench.drain()
        assert [x for x in seen(bench) if isinstance(x, int)] == [1, 2]
        assert seen(bench)[-1] == {"left": 2}
        bench.check_laws()


def test_no_position_passes_a_row_that_has_failed(timeless: ActorSystem) -> None:
    """A row fails -> the positions behind it passed all the same -> they were committed -> the next run did not read the row again."""

    def add(_: int, new: int) -> int:
        if new == 5:
            raise RuntimeError("this row is bad")
        return new

    built = Records().group_by_key(max_task_idle=0).windowed_by(LONG).reduce(add)
    with Bench(timeless, WindowStage(tasks_of(built.to_stream()))) as bench:
        begin(bench)
        send(bench, LEFT, 1, 5, 9)
        send(bench, RIGHT, 8)
        assert "this row is bad" in str(bench.end)
        assert not [x for x in seen(bench) if isinstance(x, dict) and x.get("left", 0) > 1]


def test_a_second_source_of_a_topic_lets_go_the_rows_of_its_own_task(timeless: ActorSystem) -> None:
    """Rows of two tasks are held -> a second source reads a topic of the second task -> the rows of that task go as they came, those of the first wait on."""
    other = Part("left", 1)
    with Bench(timeless, stage()) as bench:
        begin(bench)
        for topic in ("left", "right"):
            bench.put(Assigned(("s", Part(topic, 1)), 1))
        send(bench, LEFT, 5)
        bench.send(Record("x", 7, 7, RecordContext("left", 1, 0)))
        bench.put({("s", other): (1, 1)})
        assert seen(bench) == []
        bench.put(Assigned(("t", other), 1))
        assert [x for x in seen(bench) if isinstance(x, int)] == [7]
        send(bench, RIGHT, 4, 6)
        assert [x for x in seen(bench) if isinstance(x, int)] == [7, 4, 5]
        bench.cancel()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    left=st.lists(st.integers(0, 30), max_size=12),
    right=st.lists(st.integers(0, 30), max_size=12),
    data=st.data(),
)
def test_T_4_rows_go_as_a_merge_of_heads_however_they_are_cut(
    timeless: ActorSystem, left: list[int], right: list[int], data: st.DataObject
) -> None:
    with Bench(timeless, stage()) as bench:
        for key in (LEFT, RIGHT):
            bench.put(Assigned(key, 1))
        rest = {LEFT: list(left), RIGHT: list(right)}
        at = {LEFT: 0, RIGHT: 0}
        while any(rest.values()):
            key = data.draw(st.sampled_from([k for k, v in rest.items() if v]))
            n = data.draw(st.integers(1, 4))
            send(bench, key, *rest[key][:n], first=at[key])
            at[key] += len(rest[key][:n])
            del rest[key][:n]
            bench.request(data.draw(st.sampled_from([0, 1, 100])))
        for key in (LEFT, RIGHT):
            bench.put(EndOfInput(key))
        bench.complete()
        bench.drain()
        done = {"left": 0, "right": 0}
        merged, queues = [], {"left": list(left), "right": list(right)}
        while any(queues.values()):
            topic = min((t for t, q in queues.items() if q), key=lambda t: queues[t][0])
            merged.append((topic, queues[topic].pop(0)))
        assert [x.key for x in bench.received] == [topic for topic, _ in merged]
        taken = {"left": 0, "right": 0}
        for kind, x in bench.sink.seen:
            if kind == "element":
                taken[x.key] += 1
            elif isinstance(x, dict):
                done |= {key[1].topic: place for key, (_, place) in x.items()}
                assert done == taken, "a position with rows missing before it, or rows behind it taken"
        assert done == {"left": len(left), "right": len(right)}
        bench.check_laws()


@pytest.mark.parametrize("demand", [16, 10_000])
def test_while_rows_are_held_the_next_ones_come_in_together(timeless: ActorSystem, demand: int) -> None:
    """No row is processed while all wait for the other topic, so the pace stays at its first slice of one row. Rows that are only
    held formerly came in one by one at that pace."""
    with Bench(timeless, stage()) as bench:
        begin(bench, demand=demand)
        send(bench, LEFT, 0)
        sizes: list[int] = []
        hold = bench.logic.state.turns.hold
        bench.logic.state.turns.hold = lambda rows: sizes.append(len(rows)) or hold(rows)
        send(bench, LEFT, *range(1, 3_001), first=1)
        assert seen(bench) == []
        assert sum(sizes) == 3_000
        assert len(sizes) <= 5, f"3 000 rows to hold came in as {len(sizes)} chunks: {sizes[:10]}"
        send(bench, RIGHT, 5_000)
        assert [x for x in seen(bench) if isinstance(x, int)] == list(range(3_001))[:demand]
        bench.cancel()


def test_rows_that_wait_for_another_topic_have_a_gauge(timeless: ActorSystem) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench, demand=100_000)
        send(bench, LEFT, *range(MOST_ROWS + 2_000))
        gauge = bench.logic.gauge
        assert (gauge.level, gauge.highest) == (MOST_ROWS, MOST_ROWS)
        assert "10000" in gauge.bounded_by
        send(bench, RIGHT, MOST_ROWS + 5_000)
        assert gauge.level == 1
        bench.cancel()


@given(st.lists(st.lists(st.integers(0, 20)), min_size=3, max_size=4), st.integers(1, 4))
def test_rows_of_three_inputs_come_in_order_and_never_more_than_asked_for(times: list[list[int]], most: int) -> None:
    order = HeadTimeOrder(list(range(len(times))), 0)
    for name, stamps in enumerate(times):
        order.add(name, [Record(name, 1, at) for at in sorted(stamps)])
    taken: list[int] = []
    while piece := order.take(0, most, wait=False):
        assert len(piece) <= most
        taken += [each.timestamp for each in piece]
    assert taken == sorted(at for stamps in times for at in stamps)


class Reading:
    """A Kafka source, as the stages behind it see it."""

    def __init__(self) -> None:
        self.held_back: frozenset[Any] = frozenset()
        self.given_back: dict[Any, Position] = {}

    def hold_back(self, partitions: frozenset[Any]) -> None:
        self.held_back = partitions

    def give_back(self, partition: Any, place: Position) -> None:
        self.given_back[partition] = place


def test_a_stage_that_has_ended_holds_no_input_back_and_is_waited_for_no_more(timeless: ActorSystem) -> None:
    """Two stages read the same topics -> the first holds the left one back, and is cancelled -> the second waited for the left topic forever,
    and a revocation for what the first one holds."""
    source = Reading()
    with Bench(timeless, stage()) as first, Bench(timeless, stage()) as second:
        provider = ChangelogProvider(
            ConsumerSettings("nowhere:1", group_id="g"),
            second.logic.run,
            "g",
            subscription=Subscriptions.topics("left", "right"),
            bounded=False,
            source=source,
        )
        for bench in (first, second):
            bench.logic._providers = {"s": provider}
            bench.logic.state.turns.sources = {"s": False}
            begin(bench)
        send(first, LEFT, *range(FAR_AHEAD + 1))
        assert source.held_back == {LEFT[1]}
        first.cancel()
        assert not source.held_back
        send(second, LEFT, 1)
        provider.revoking([LEFT, RIGHT])
        second.settle()
        assert source.given_back[LEFT[1]] == (1, 0)
        second.cancel()
