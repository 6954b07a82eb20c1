"""Tasks of several input topics: rows by head timestamp, waits, and positions that never run ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.engine.marks import Assigned, EndOfInput, Idle, Revoked
from streamactors.testing.window_test_driver import RecordStream
from streamactors.windows import Record, RecordContext, TimeWindows, compile
from streamactors.windows.head_time import HeadTimeOrder
from streamactors.windows.stage import WindowStage
from tests.stages.harness import Bench


class Part(NamedTuple):
    topic: str
    partition: int


LEFT, RIGHT = ("s", Part("left", 0)), ("s", Part("right", 0))
LONG = TimeWindows.of_size(1_000).with_grace(0)


def row(topic: str, timestamp: int, offset: int) -> Record:
    return Record(topic, timestamp, timestamp, RecordContext(topic, 0, offset))


def stage(max_idle_ms: float = 100) -> WindowStage:
    built = RecordStream().group_by_key().windowed_by(LONG).reduce(lambda _, new: new)
    return WindowStage(compile(built.to_stream().blueprint), max_idle_ms=max_idle_ms)


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


def test_T_4_an_empty_input_is_waited_for_max_idle(timeless: ActorSystem) -> None:
    with Bench(timeless, stage()) as bench:
        begin(bench)
        send(bench, LEFT, 1)
        bench.advance(99)
        assert seen(bench) == []
        bench.advance(1)
        assert seen(bench) == [1, {"left": 1}]
        bench.cancel()


@pytest.mark.parametrize("signal", [Idle(RIGHT), EndOfInput(RIGHT), Revoked(RIGHT)], ids=lambda s: type(s).__name__)
def test_T_4_an_input_known_to_be_silent_is_not_waited_for(timeless: ActorSystem, signal: Any) -> None:
    with Bench(timeless, stage(1_000_000)) as bench:
        begin(bench)
        send(bench, LEFT, 1)
        assert seen(bench) == []
        bench.put(signal)
        assert seen(bench) == [1, {"left": 1}]
        bench.cancel()


def test_the_end_of_the_stream_takes_what_is_held(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(1_000_000)) as bench:
        begin(bench, 1)
        send(bench, LEFT, 1, 2)
        bench.complete()
        bench.drain()
        assert [x for x in seen(bench) if isinstance(x, int)] == [1, 2]
        assert seen(bench)[-1] == {"left": 2}
        bench.check_laws()


def test_too_many_rows_held_end_the_wait() -> None:
    order = HeadTimeOrder(["a", "b"], 1_000, most_rows=3)
    order.add("a", [Record("a", 1, at) for at in range(5)])
    assert [each.timestamp for each in order.take(0)] == [0, 1]
    assert order.size == 3


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    left=st.lists(st.integers(0, 30), max_size=12),
    right=st.lists(st.integers(0, 30), max_size=12),
    data=st.data(),
)
def test_T_4_rows_go_as_a_merge_of_heads_however_they_are_cut(
    timeless: ActorSystem, left: list[int], right: list[int], data: st.DataObject
) -> None:
    with Bench(timeless, stage(1_000_000)) as bench:
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
