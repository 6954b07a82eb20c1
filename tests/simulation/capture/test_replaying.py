"""A graph on a capsule made by hand: what arrives, when, from where, and what each stage does with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamactors import Directive, Flow, RestartSettings, RestartSource, Sink, Source
from streamactors.errors import StreamActorsError
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.simulation.capture.capsule import Kind
from streamactors.simulation.capture.errors import CaptureError
from streamactors.simulation.capture.loading import Begin
from streamactors.simulation.capture.replaying import Replayed, Step, replay
from streamactors.simulation.world.errors import NotSimulated
from streamactors.state import State
from streamactors.windows import TimeWindows
from tests.simulation.capture.capsules import GROUP, SINCE_MS, capsule_of, record, slice_of

SERVERS = "nowhere:9092"
READER = ConsumerSettings(SERVERS, GROUP, "earliest")
WRITER = ProducerSettings(SERVERS)
IN = Subscriptions.topics("in")


def plain(fn: Callable[[Any], Any], subscription: Any = IN) -> Any:
    """A graph that writes what a function makes of each record, in transactions."""
    copies = Transactional.source(READER, subscription).map(fn).named("user's")
    return copies.to(Transactional.sink(WRITER.with_transactional_id("t")))


def copied(each: Any) -> ProducerRecord:
    return ProducerRecord("out", each.value, each.key, headers=each.headers)


def steps_of(capsule: Any, graph: Any, **more: Any) -> tuple[list[Step], Replayed]:
    steps: list[Step] = []

    def keep(step: Step) -> bool:
        steps.append(step)
        return True

    return steps, replay(capsule, graph, on_step=keep, **{"settle_s": 5.0, **more})


def values(done: Replayed, place: str = "out") -> list[str]:
    return [each.value for each in done.results if each.place == place]


def test_every_stage_tells_what_it_emits_for_each_record() -> None:
    graph = (
        Consumer.plain_source(READER, IN)
        .map(lambda each: int(each.value)).named("number")
        .filter(lambda number: number % 2 == 0).named("even")
        .map_concat(lambda number: [number, number * 10]).named("twice")
        .to(Sink.ignore())
    )  # fmt: skip
    steps, done = steps_of(capsule_of(slice_of([record(5, b"1"), record(6, b"2")])), graph)
    told = [
        [(each.stage, each.text) for each in step.emitted if each.stage != "Consumer.plain_source"] for step in steps
    ]
    assert told == [[("number", "1")], [("number", "2"), ("even", "2"), ("twice", "2"), ("twice", "20")]]
    assert [step.record and step.record.place for step in steps] == ["in-0@5", "in-0@6"]
    assert (done.records, done.of, done.failures) == (2, 2, [])


def test_records_arrive_at_their_times_in_every_partition_and_nobody_waits() -> None:
    slices = [slice_of([record(0, b"a", at_ms=0), record(1, b"c", at_ms=50_000)]), slice_of([record(0, b"b", at_ms=20_000, partition=1)], partition=1)]  # fmt: skip
    clock: list[tuple[bytes, int]] = []
    graph = plain(lambda each: clock.append((each.value, int(time.time() * 1_000))) or copied(each))
    began = time.monotonic()
    steps, _ = steps_of(capsule_of(*slices), graph)
    assert time.monotonic() - began < 30  # of a minute and the time to settle
    assert clock == [(b"a", SINCE_MS), (b"b", SINCE_MS + 20_000), (b"c", SINCE_MS + 50_000)]
    assert [step.at_ms - SINCE_MS for step in steps if step.record] == [0, 20_000, 50_000]


def test_times_that_lie_or_are_missing_put_no_record_outside_of_the_span_or_out_of_order() -> None:
    times = [30_000, 10_000, -9_999_999_999, 10**15, 40_000]
    records = [record(at, b"%d" % at, at_ms=ms) for at, ms in enumerate(times)]
    records.append(record(5, b"5")._replace(timestamp_ms=-1))
    seen: list[Any] = []
    graph = plain(lambda each: seen.append((int(each.value), each.timestamp)) or copied(each))
    steps, done = steps_of(capsule_of(slice_of(records)), graph)
    assert [step.at_ms - SINCE_MS for step in steps if step.record] == [30_000, 30_000, 30_000, 60_000, 60_000, 60_000]
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4, 5]
    assert [at for _, at in seen[:4]] == [each.timestamp_ms for each in records[:4]]  # the graph sees what was captured
    assert done.records == 6


def test_the_wall_clock_of_the_graph_is_that_of_the_capture() -> None:
    seen: list[datetime] = []
    replay(capsule_of(slice_of([record(0, b"1")])), plain(lambda each: seen.append(datetime.now(UTC)) or copied(each)))
    assert seen == [datetime.fromtimestamp(SINCE_MS / 1_000, UTC)]


def test_offsets_with_gaps_tombstones_headers_and_keys_come_as_they_were() -> None:
    rows = [
        record(17, b"v", key=b"k", headers=[("h", b"1"), ("h", None)]),
        record(20, None, key=b"k"),
        record(1_000_000, b"", key=None),
        record(1_000_001, b"\xff", key=b"\x00"),
    ]
    seen: list[Any] = []
    graph = plain(lambda r: seen.append((r.offset, r.key, r.value, r.headers)) or copied(r))
    _, done = steps_of(capsule_of(slice_of(rows)), graph)
    assert seen == [(each.offset, each.key, each.value, each.headers) for each in rows]
    assert done.committed == {"in-0": 1_000_002}
    assert values(done) == ["'v'", "tombstone", "''", "b'\\xff'"]


def test_empty_partitions_stay_where_they_were() -> None:
    slices = [
        slice_of([], begin=40, end=40),
        slice_of([record(7, b"1", partition=1)], partition=1),
        slice_of([], partition=2),
    ]
    _, done = steps_of(capsule_of(*slices), plain(copied))
    assert done.committed == {"in-0": 40, "in-1": 8, "in-2": 0}
    assert values(done) == ["'1'"]


def test_a_capsule_without_a_record_ends_well() -> None:
    steps, done = steps_of(capsule_of(slice_of([], begin=3)), plain(copied))
    assert (steps, done.records, done.ended) == ([], 0, False)


def test_a_poison_record_is_named_with_its_stage_and_line_and_ends_the_replay() -> None:
    graph = plain(lambda each: ProducerRecord("out", json.loads(each.value)["id"]))
    rows = [record(0, b'{"id": "1"}'), record(1, b"{"), record(2, b'{"id": "3"}')]
    steps, done = steps_of(capsule_of(slice_of(rows)), graph)
    (failure,) = done.failures
    assert failure.stage == "user's"
    assert failure.error.startswith("JSONDecodeError: Expecting property name")
    assert Path(__file__).name in failure.where
    assert [step.record.place for step in steps if step.failures and step.record] == ["in-0@1"]
    assert (done.records, done.of, done.ended) == (2, 3, True)
    assert values(done) == ["'1'"]
    assert done.committed == {"in-0": 1}


@pytest.mark.expects_log("skipped: ValueError")
def test_a_record_that_supervision_drops_is_told_and_the_replay_goes_on() -> None:
    graph = (
        Consumer.plain_source(READER, IN)
        .map(lambda each: int(each.value)).named("number").with_attributes(decider=lambda error: Directive.RESUME)
        .map(lambda number: ProducerRecord("out", str(number)))
        .to(Producer.plain_sink(WRITER))
    )  # fmt: skip
    steps, done = steps_of(capsule_of(slice_of([record(0, b"1"), record(1, b"x"), record(2, b"3")])), graph)
    assert values(done) == ["'1'", "'3'"]
    assert [(each.stage, each.dropped) for each in done.failures] == [("number", True)]
    assert [step.record.offset for step in steps if step.failures and step.record] == [1]
    assert not done.ended


@pytest.mark.expects_log("failed with ConnectionError: the bank is away")
def test_a_graph_that_restarts_goes_on_and_each_failure_is_told() -> None:
    fails = [b"2"]

    def once(each: Any) -> ProducerRecord:
        if each.value in fails:
            fails.remove(each.value)
            raise ConnectionError("the bank is away")
        return copied(each)

    restarts = RestartSettings(min_backoff="1s", max_backoff="1s")
    source = RestartSource.on_failures_with_backoff(
        restarts, lambda: Consumer.plain_source(READER, Subscriptions.topics("in")).map(once).named("call")
    )
    slices = slice_of([record(0, b"1"), record(1, b"2"), record(2, b"3", at_ms=9_000)])
    _, done = steps_of(capsule_of(slices), source.to(Producer.plain_sink(WRITER)))
    assert [each.error for each in done.failures if "bank" in each.error]
    assert not done.ended
    assert "'3'" in values(done)


def test_a_graph_that_cannot_begin_is_a_failure() -> None:
    graph = plain(copied, Subscriptions.topics("elsewhere"))
    _, done = steps_of(capsule_of(slice_of([record(0, b"1")])), graph)
    assert "no topic elsewhere" in done.failures[0].error
    assert (done.records, done.ended) == (0, True)


def test_a_graph_of_another_group_is_refused_with_both_names() -> None:
    with pytest.raises(CaptureError, match="the capsule is of group others, and the graph reads in readers"):
        replay(capsule_of(slice_of([]), group="others"), plain(copied))


def test_a_socket_is_refused_and_no_broker_is_reached() -> None:
    def call(each: Any) -> Any:
        import socket

        return socket.create_connection(("127.0.0.1", 1))

    with pytest.raises(NotSimulated, match="a simulated world has no look-up of a host"):
        replay(capsule_of(slice_of([record(0, b"1")])), plain(call))


def test_at_the_committed_offsets_only_what_the_group_had_not_read_arrives() -> None:
    rows = slice_of([record(at, b"%d" % at) for at in range(5)], committed=3)
    _, done = steps_of(capsule_of(rows), plain(copied), begin=Begin.COMMITTED)
    assert (values(done), done.of) == (["'3'", "'4'"], 2)
    _, done = steps_of(capsule_of(rows), plain(copied))
    assert done.of == 5


def test_a_table_has_its_old_records_and_those_of_the_span_arrive() -> None:
    table = slice_of([record(2, b"old", key=b"a"), record(9, b"new", key=b"b", at_ms=500)], begin=5)
    seen: list[Any] = []
    graph = Consumer.plain_source(
        ConsumerSettings(SERVERS, None, "earliest"), Subscriptions.assignment_with_offset({("in", 0): 2})
    )
    steps, _ = steps_of(
        capsule_of(
            table, kinds={"in": Kind.TABLE}, settings={"in": {"cleanup.policy": "compact", "retention.ms": "1"}}
        ),
        graph.map(lambda each: seen.append((each.offset, each.value)) or each).to(Sink.ignore()),
    )
    assert seen == [(2, b"old"), (9, b"new")]
    assert [step.record.offset for step in steps if step.record] == [9]


def counting(reader: ConsumerSettings = READER) -> Any:
    windows = Consumer.records(reader, IN, key="string", value="string").group_by_key()
    counts = windows.windowed_by(TimeWindows.of_size("10s").with_grace("1s")).count(name="c").to_stream()
    return counts.map(lambda row: ProducerRecord("out", str(row.value), row.key)).to(
        Transactional.sink(WRITER.with_transactional_id("t"))
    )


ROWS = [record(at, b"x", key=b"ab"[at % 2 : at % 2 + 1], at_ms=at * 1_500) for at in range(12)]


def test_results_of_windows_have_key_and_window() -> None:
    steps, done = steps_of(capsule_of(slice_of(ROWS)), counting())
    results = [
        (each.key, (each.window.start_ms - SINCE_MS) // 10_000, each.value) for each in done.results if each.window
    ]
    assert results[:3] == [("'a'", 0, "1"), ("'b'", 0, "1"), ("'a'", 0, "2")]
    assert results[-1] == ("'b'", 1, "3")
    assert {step.number for step in steps if any(each.window for each in step.emitted)} == set(range(1, 13))
    assert len(values(done)) == 12


@pytest.mark.parametrize("seed", [1])
def test_equal_replays_are_equal_whatever_the_seed(seed: int) -> None:
    first, done = steps_of(capsule_of(slice_of(ROWS)), counting(), seed=seed)
    again, _ = steps_of(capsule_of(slice_of(ROWS)), counting(), seed=seed)
    assert first == again
    assert [each.value for each in done.results] == [
        each.value for each in replay(capsule_of(slice_of(ROWS)), counting()).results
    ]


def test_state_on_disk_is_in_a_folder_of_the_replay(tmp_path: Path) -> None:
    users = tmp_path / "state"
    _, done = steps_of(capsule_of(slice_of(ROWS)), counting(READER.with_state(State.on_disk(users))))
    assert len(values(done)) == 12
    assert not users.exists()


def test_results_of_aborted_transactions_are_no_results() -> None:
    def late(each: Any) -> ProducerRecord:
        if each.value == b"bad":
            raise ValueError("bad")
        return copied(each)

    rows = [record(0, b"1", at_ms=0), record(1, b"2", at_ms=1), record(2, b"bad", at_ms=2)]  # in one transaction
    _, done = steps_of(capsule_of(slice_of(rows)), plain(late))
    assert values(done) == []
    assert done.committed == {"in-0": 0}


def test_what_is_written_to_a_topic_of_the_group_is_told_as_sent_and_read_again() -> None:
    def halved(each: Any) -> ProducerRecord:
        half = int(each.value) // 2
        return ProducerRecord("in" if half else "out", str(half))

    steps, done = steps_of(capsule_of(slice_of([record(4, b"4")])), plain(halved))
    assert [(each.place, each.value_text) for step in steps for each in step.sent] == [("in-0@5", "'2'"), ("in-0@7", "'1'"), ("out-0@0", "'0'")]  # fmt: skip
    assert done.of == 1


def test_a_commit_after_the_last_record_is_waited_for() -> None:
    graph = (
        Consumer.committable_source(READER, IN)
        .map(lambda message: message.offset)
        .to(Committer.sink(CommitterSettings(max_interval_ms=20_000)))
    )
    _, done = steps_of(capsule_of(slice_of([record(8, b"1")])), graph, settle_s=30.0)
    assert done.committed == {"in-0": 9}


def test_the_caller_may_end_a_replay_early() -> None:
    rows = slice_of([record(at, b"1") for at in range(5)])
    done = replay(capsule_of(rows), plain(copied), on_step=lambda step: step.number < 2)
    assert (done.records, done.ended) == (2, False)


def test_a_graph_that_ends_before_all_records_have_arrived_is_told() -> None:
    graph = Consumer.plain_source(READER, IN).take(2).to(Sink.ignore())
    _, done = steps_of(capsule_of(slice_of([record(at, b"1") for at in range(5)])), graph)
    assert (done.records, done.of, done.ended, done.failures) == (2, 5, True, [])


def test_a_replay_leaves_nothing_behind() -> None:
    from streamactors.kafka.client.connection import ck
    from streamactors.kafka.client.created_topics import made_here
    from streamactors.kafka.state.changelogs import changelog_provider

    before = (ck.Consumer, ck.Producer, changelog_provider.StateFolder, made_here.copy())  # type: ignore[attr-defined]
    graph = counting()
    replay(capsule_of(slice_of(ROWS)), graph, settle_s=1.0)
    assert (ck.Consumer, ck.Producer, changelog_provider.StateFolder, made_here) == before  # type: ignore[attr-defined]
    assert graph.run  # the graph itself is as it was: it runs a second time
    assert replay(capsule_of(slice_of(ROWS)), graph, settle_s=1.0).records == 12


def test_stages_in_other_islands_and_inside_of_others_are_told() -> None:
    graph = (
        Consumer.plain_source(READER, IN)
        .async_boundary()
        .flat_map_concat(lambda each: Source.from_iterable([each.value, b"2"]).via(Flow.map(lambda value: value * 2)))
        .map(len).named("length")
        .to(Sink.ignore())
    )  # fmt: skip
    (step,), _ = steps_of(capsule_of(slice_of([record(0, b"a")])), graph)
    assert [each.text for each in step.emitted if each.stage == "length"] == ["2", "2"]
    assert any("›" in each.stage and each.text == "b'aa'" for each in step.emitted)


def test_errors_of_captures_are_of_the_package() -> None:
    assert issubclass(CaptureError, StreamActorsError)
