"""Windows as a stage of a graph: demand, marks, silence, the end of an input, late rows, failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import reactivex
import reactivex.operators as rx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import Flow, KillSwitches, Sink, Source
from streamactors.actors.system import ActorSystem
from streamactors.engine.attributes import Attributes
from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle, Revoked
from streamactors.engine.supervision import resuming
from streamactors.windows import (
    BufferConfig,
    BufferFull,
    InvalidRecord,
    OperatorFailed,
    Record,
    RecordContext,
    Suppressed,
    TimeWindows,
)
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.stage.window_logic import WindowLogic
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.window_task import WindowTask
from tests.models.window_case import Case, cases
from tests.stages.harness import KEY, Bench
from tests.windows.run_case import build, plain
from tests.windows.words import CLOSED, W

TEN = TimeWindows.of_size(10).with_grace(0)


def stage(build: Any, **options: Any) -> WindowStage:
    built = build(Records())
    stream = built if isinstance(built, TopologyStream) else built.to_stream()
    return WindowStage(tasks_of(stream, **options))


def counts(records: Any) -> Any:
    return records.group_by_key().windowed_by(TEN).count()


def finals(records: Any) -> Any:
    return counts(records).suppress(CLOSED)


def put(bench: Bench, signal: Any) -> None:
    """Send a signal, or any other mark, behind everything sent so far."""
    bench._on(bench.source, lambda logic: logic.put(signal))


def row(key: str, timestamp: int, partition: int | None = None) -> Record:
    return Record(key, 1, timestamp, None if partition is None else RecordContext("input", partition, timestamp))


def test_an_iterable_source_that_ends_flushes() -> None:
    rows = [row("a", 5), row("a", 6), row("b", 12)]
    got = Source.from_iterable(rows).via(stage(finals)).run_with(Sink.to_list()).result(timeout=10)
    assert got == [W("a", 0, 10, 2, 6), W("b", 10, 20, 1, 12)]
    assert all(each.is_final for each in got)


def test_two_sources_flush_when_both_have_ended(timeless: ActorSystem) -> None:
    first = Source.from_iterable([row("a", 5)])
    second = Source.from_iterable([row("b", 6)] * 3)
    got = first.merge(second).via(stage(finals)).run_with(Sink.to_list()).result(timeout=10)
    assert sorted(map(plain, got)) == [("a", 0, 10, 1, 5), ("b", 0, 10, 3, 6)]


def test_a_stage_that_lets_no_marks_pass_leaves_completion_to_tell_the_end() -> None:
    opaque = Flow.rx(rx.flat_map(reactivex.just), holds=True)
    got = Source.from_iterable([row("a", 5)]).via(opaque).via(stage(finals)).run_with(Sink.to_list())
    assert got.result(timeout=10) == [W("a", 0, 10, 1, 5)]


def test_stopping_a_stream_flushes_nothing() -> None:
    switch = KillSwitches.shared("stop")
    seen: list[Any] = []

    def stop_at_the_third(record: Record) -> Record:
        if record.timestamp == 3:
            switch.shutdown()
        return record

    rows = (row("a", at) for at in range(10))
    done = (
        Source.from_iterable(list(rows)).map(stop_at_the_third).via(switch.flow()).via(stage(finals))
        .run_with(Sink.foreach(seen.append))
    )  # fmt: skip
    done.result(timeout=10)
    assert seen == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), data=st.data())
def test_demand_and_chunks_change_nothing(timeless: ActorSystem, case: Case, data: st.DataObject) -> None:
    case = Case(case.windows, case.aggregate, (), case.rows, case.emits, case.semantics)
    task: WindowTask = tasks_of(build(case, Records()))()
    records = [Record(*each) for each in case.rows]
    wanted = task.process_chunk(records) + task.end_of_input()
    with Bench(timeless, WindowStage(tasks_of(build(case, Records())))) as bench:
        left = list(records)
        while left:
            n = data.draw(st.integers(1, 5))
            bench.send(*left[:n])
            del left[:n]
            bench.request(data.draw(st.sampled_from([0, 1, 3, 100])))
            assert len(bench.received) <= bench.requested
        bench.complete()
        bench.drain()
        bench.check_laws()
        assert list(map(plain, bench.received)) == list(map(plain, wanted))


def test_results_that_nobody_asked_for_wait_and_hold_back_what_follows(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(lambda r: r.group_by_key().windowed_by(TEN.advance_by(2)).count())) as bench:
        bench.request(1)
        bench.send(row("a", 10))  # five updates
        bench.mark()
        assert len(bench.received) == 1
        assert bench.marks == []
        bench.request(3)
        assert bench.marks == []
        bench.request(1)
        assert len(bench.received) == 5
        assert bench.marks == [1]
        bench.complete()
        assert bench.end == "completed"


def test_marks_pass_at_once_behind_what_was_given_out(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(finals)) as bench:
        bench.request(100)
        bench.send(row("a", 5))
        bench.mark()
        bench.send(row("z", 10))
        bench.mark()
        assert bench.seen == [("mark", 1), ("element", W("a", 0, 10, 1, 5)), ("mark", 2)]
        bench.cancel()


def test_the_end_of_an_input_comes_behind_its_last_results_with_the_last_position_again(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(finals)) as bench:
        bench.request(100)
        bench.send(row("a", 5))
        bench.mark()
        put(bench, EndOfInput(KEY))
        assert [what for _, what in bench.seen] == [1, W("a", 0, 10, 1, 5), 1, EndOfInput(KEY)]
        bench.complete()
        assert bench.end == "completed"
        assert len(bench.received) == 1


def test_a_failure_of_a_row_lets_the_rows_before_it_out_first(timeless: ActorSystem) -> None:
    bounded = Suppressed.until_window_closes(BufferConfig.max_records(1))
    with Bench(timeless, stage(lambda r: counts(r).suppress(bounded)), Attributes(max_chunk=100)) as bench:
        bench.send(row("a", 5), row("a", 15), row("b", 15), row("c", 100))
        for _ in range(10):
            bench.request(1)
        assert bench.received == [W("a", 0, 10, 1, 5)]
        assert isinstance(bench.end, BufferFull)


def failing(records: Any) -> Any:
    def add(total: int, value: int) -> int:
        if value == 0:
            raise ZeroDivisionError("nothing")
        return total + value

    return records.group_by_key().windowed_by(TEN).aggregate(int, add)


def test_user_code_that_raises_stops_the_stream_and_is_named(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(failing)) as bench:
        bench.request(100)
        bench.send(Record("a", 1, 5), Record("a", 0, 6))
        assert bench.received == [W("a", 0, 10, 1, 5)]
        assert isinstance(bench.end, OperatorFailed)
        assert "key 'a' in window 0..10" in str(bench.end)


@pytest.mark.expects_log("skipped: ")
def test_supervision_can_skip_the_row_and_the_windows_keep_their_state(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(failing), Attributes(decider=resuming)) as bench:
        bench.request(100)
        bench.send(Record("a", 1, 5), Record("a", 0, 6), Record("a", 2, 7))
        assert bench.received == [W("a", 0, 10, 1, 5), W("a", 0, 10, 3, 7)]
        bench.cancel()


def test_elements_that_are_no_records_fail_whatever_the_supervision(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(finals), Attributes(decider=resuming)) as bench:
        bench.request(100)
        bench.send("text")
        assert isinstance(bench.end, InvalidRecord)


# ── partitions ────────────────────────────────────────────────────────────────────────────────────────────────────────


class TopicPartition(tuple[str, int]):
    partition = property(lambda self: self[1])


def key(partition: int, topic: str = "input") -> Any:
    return ("source", TopicPartition((topic, partition)))


def test_partitions_are_tasks_and_revoking_one_flushes_nothing(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(finals)) as bench:
        bench.request(100)
        for partition in (0, 1):
            put(bench, Assigned(key(partition)))
        bench.send(row("a", 5, 0), row("b", 500, 1))
        put(bench, Revoked(key(0)))
        assert bench.received == []
        assert list(bench.logic.tasks.tasks) == [1]
        bench.send(row("a", 5, 0))
        assert isinstance(bench.end, InvalidRecord)


def test_a_task_of_two_topics_ends_and_falls_silent_with_both(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(lambda r: finals(r), changelog=False)) as bench:
        bench.request(100)
        for topic in ("left", "right"):
            put(bench, Assigned(key(0, topic)))
        bench.send(row("a", 5, 0))
        put(bench, EndOfInput(key(0, "left")))
        assert bench.received == []
        put(bench, EndOfInput(key(0, "right")))
        assert bench.received == [W("a", 0, 10, 1, 5)]
        bench.cancel()


def idle(records: Any) -> Any:
    return records.group_by_key().windowed_by(TEN, idle_after="100ms").count().suppress(CLOSED)


def test_the_idle_signal_of_all_inputs_of_a_partition_closes_its_windows(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(idle)) as bench:
        bench.request(100)
        for topic in ("left", "right"):
            put(bench, Assigned(key(0, topic)))
        bench.send(row("a", 5, 0))
        put(bench, Idle(key(0, "left"), silent_ms=1_000))
        assert bench.received == []
        put(bench, Idle(key(0, "right"), silent_ms=104))
        assert bench.received == []  # as silent as the least silent: 4 ms beyond the timeout
        put(bench, Idle(key(0, "right"), silent_ms=105))
        assert bench.received == [W("a", 0, 10, 1, 5)]
        bench.send(row("b", 11, 0))
        put(bench, Idle(key(0, "left"), silent_ms=1_000))
        assert len(bench.received) == 1  # the row ended the silence of both
        bench.cancel()


def test_without_partitions_the_stage_measures_silence_itself(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(idle)) as bench:
        bench.request(100)
        bench.send(row("a", 5))
        bench.advance("104ms")
        assert bench.received == []
        bench.advance("1ms")
        assert bench.received == [W("a", 0, 10, 1, 5)]
        bench.send(row("b", 10))
        bench.advance("50ms")
        bench.send(row("b", 11))
        bench.advance("108ms")
        assert len(bench.received) == 1
        bench.advance("1ms")
        assert len(bench.received) == 2
        bench.cancel()


def test_an_input_that_is_not_asked_is_not_silent(timeless: ActorSystem) -> None:
    with Bench(timeless, stage(idle)) as bench:
        bench.request(1)
        bench.send(row("a", 5), row("a", 12))  # the first window is out; nobody asks for more
        assert len(bench.received) == 1
        bench.advance("10s")
        bench.request(1)
        assert len(bench.received) == 1
        bench.advance("200ms")
        assert len(bench.received) == 2
        bench.cancel()


def test_late_rows_leave_by_an_outlet_of_their_own(timeless: ActorSystem) -> None:
    from streamactors import GraphDSL

    def with_late(records: Any) -> Any:
        return records.group_by_key().windowed_by(TEN, late=True).count().suppress(CLOSED)

    rows = [row("a", 5), row("b", 12), row("a", 6), row("a", 30), row("b", 13)]
    with GraphDSL() as graph:
        windows = graph.add(stage(with_late))
        results = graph.add(Sink.to_list(), keep=True)
        late = graph.add(Sink.to_list(), keep=True)
        graph.add(Source.from_iterable(rows)) >> windows
        windows.out(0) >> results
        windows.out(1) >> late
    kept = [future.result(timeout=10) for future in graph.to_runnable().run()]
    assert kept[0] == [W("a", 0, 10, 1, 5), W("b", 10, 20, 1, 12), W("a", 30, 40, 1, 30)]
    assert [each.record for each in kept[1]] == [row("a", 6), row("b", 13)]


@pytest.mark.parametrize("asked", [1, 3, 1_000])
def test_the_snapshot_says_what_waits(timeless: ActorSystem, asked: int) -> None:
    with Bench(timeless, stage(lambda r: r.group_by_key().windowed_by(TEN.advance_by(2)).count())) as bench:
        bench.request(asked)
        bench.send(row("a", 10))
        assert bench.logic.snapshot_state() == f"1 partitions, {max(0, 5 - asked)} results wait for demand"
        bench.cancel()


def test_a_stage_whose_functions_are_slow_takes_single_rows() -> None:
    logic = WindowLogic(tasks_of(finals(Records()).to_stream()))
    logic.outlets = [SimpleNamespace(asked=1_000)]  # type: ignore[list-item]
    logic._pace = SimpleNamespace(limit=1)  # type: ignore[assignment] # what Pace allows while calls are slow
    assert logic.room == 1
