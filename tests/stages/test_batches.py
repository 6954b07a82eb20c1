"""The contract of batch sinks: sizes, time, order, retries, marks; and the one that writes objects by fsspec."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, BuildError, Directive, Keep, RestartSettings, Sink, Source, VirtualClock
from tests.own_process import own_process

QUICK = RestartSettings("1ms", "2ms", max_restarts=3)


@pytest.fixture(scope="module")
def virtual():
    with ActorSystem("batches", clock=VirtualClock()) as system:
        yield system


# ── the contract ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(0, 60), most=st.integers(1, 20), max_chunk=st.sampled_from([None, 1, 3]))
def test_batches_are_full_and_in_order_and_the_last_one_is_the_rest(n, most, max_chunk):
    written: list[list[int]] = []
    source = Source.range(0, n)
    if max_chunk:
        source = source.max_chunk(max_chunk)
    assert source.run_with(Sink.batches(written.append, most, "1h")).result(10) == n
    assert written == [list(range(i, min(i + most, n))) for i in range(0, n, most)]


def test_a_batch_is_written_when_its_time_is_over(virtual):
    clock = virtual.clock
    written: list[list[int]] = []
    queue, done = Source.queue(100).to_mat(Sink.batches(written.append, 10, "5s"), Keep.both).run(virtual)
    clock.settle()
    queue.offer(1)
    clock.settle()
    clock.advance("4s")
    queue.offer(2)
    clock.settle()
    assert written == []
    clock.advance("1s")
    assert written == [[1, 2]]
    clock.advance("1m")  # no empty batch
    queue.offer(3)
    queue.complete()
    clock.settle()
    assert written == [[1, 2], [3]]
    assert done.result(10) == 3


def test_one_batch_is_written_at_a_time_and_the_source_waits(virtual):
    clock = virtual.clock
    release, running, most = threading.Semaphore(0), [], []
    pulled: list[int] = []

    async def write(batch: list[int]) -> None:
        running.append(batch)
        most.append(len(running))
        while not release.acquire(blocking=False):
            await asyncio.sleep(1)
        running.remove(batch)

    source = Source.range(0, 1_000).map(lambda x: pulled.append(x) or x).max_chunk(1)
    done = source.run_with(Sink.batches(write, 10, "1h"), virtual)
    clock.settle()
    assert len(pulled) <= 30, "one batch is written, one waits"
    release.release(100)
    clock.advance("100s")
    assert done.result(10) == 1_000
    assert max(most) == 1


def test_several_batches_may_be_written_at_once():
    entered = threading.Barrier(3)
    done = Source.range(0, 30).run_with(Sink.batches(lambda batch: entered.wait(10), 10, "1h", parallelism=3))
    assert done.result(20) == 30


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_mark_is_done_when_everything_before_it_was_written(parallelism):
    written: set[int] = set()
    lock = threading.Lock()
    positions: list[int] = []

    def write(batch: list[int]) -> None:
        with lock:
            written.update(batch)

    def on_done(position: int) -> None:
        with lock:
            positions.append(position)
            assert set(range(position)) <= written

    source = Source.range(0, 1_000).with_replay(marks_at=range(0, 1_000, 7), on_done=on_done)
    assert source.run_with(Sink.batches(write, 64, "1h", parallelism=parallelism)).result(10) == 1_000
    assert positions == sorted(positions)
    assert positions[-1] == 1_000


def test_a_batch_that_was_not_written_is_not_done():
    positions: list[int] = []

    def write(batch: list[int]) -> None:
        if 50 in batch:
            raise OSError("the disk is full")

    source = Source.range(0, 100).with_replay(on_done=positions.append).max_chunk(10)
    with pytest.raises(OSError, match="the disk is full") as raised:
        source.run_with(Sink.batches(write, 10, "1h")).result(10)
    assert max(positions, default=0) <= 50
    assert any("in stage batches" in note for note in raised.value.__notes__)


def test_a_batch_is_tried_again_as_retry_says_and_written_whole(caplog):
    written: list[list[int]] = []
    failures = [ConnectionError("gone"), ConnectionError("still gone")]

    def write(batch: list[int]) -> None:
        batch_at_first = batch.copy()
        batch.clear()  # what a writer does to its list must not reach the next attempt
        if batch_at_first[0] == 10 and failures:
            raise failures.pop(0)
        written.append(batch_at_first)

    with caplog.at_level("WARNING", "streamactors.stages"):
        assert Source.range(0, 30).run_with(Sink.batches(write, 10, "1h", QUICK)).result(10) == 30
    assert written == [list(range(i, i + 10)) for i in (0, 10, 20)]
    told = [r.getMessage() for r in caplog.records]
    assert "writing 10 elements failed (attempt 2): ConnectionError: still gone" in told[-1]


@pytest.mark.expects_log("failed (attempt")
def test_retries_end_and_errors_that_need_none_fail_at_once():
    attempts: list[int] = []

    def write(batch: list[int]) -> None:
        attempts.append(1)
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        Source.range(0, 3).run_with(Sink.batches(write, 10, "1h", QUICK)).result(10)
    assert len(attempts) == 4
    attempts.clear()
    only_network = RestartSettings("1ms", "2ms", restart_on=lambda error: isinstance(error, ConnectionError))
    with pytest.raises(ValueError, match="never"):
        Source.range(0, 3).run_with(Sink.batches(write, 10, "1h", only_network)).result(10)
    assert len(attempts) == 1


@pytest.mark.expects_log("skipped: ")
def test_supervision_may_drop_a_batch():
    written: list[list[int]] = []

    def write(batch: list[int]) -> None:
        if batch[0] == 10:
            raise ValueError("bad batch")
        written.append(batch)

    sink = Sink.batches(write, 10, "1h").with_attributes(decider=lambda error: Directive.RESUME)
    assert Source.range(0, 30).run_with(sink).result(10) == 20
    assert [batch[0] for batch in written] == [0, 20]


def test_a_failure_upstream_fails_the_sink_and_cancel_stops_it():
    failing = Source.from_iterable([1, 0]).map(lambda x: 1 // x)
    with pytest.raises(ZeroDivisionError):
        failing.run_with(Sink.batches(lambda batch: None)).result(10)
    endless = Source.repeat(1).run_with(Sink.batches(lambda batch: None, 10))
    assert endless.cancel()


def test_arguments_that_cannot_work_are_refused():
    for make, message in (
        (lambda: Sink.batches(3), "batches expects a function"),
        (lambda: Sink.batches(print, 0), "max must be at least 1"),
        (
            lambda: Sink.batches(print, retry=3),
            r"retry must be RestartSettings\(min_backoff, max_backoff, …\) or None, got 3",
        ),
        (lambda: Sink.to_sql(print, ""), "statement must be a string of SQL"),
        (lambda: Sink.to_sql_table(print, "t", "a"), "columns must be a list of names, got the string 'a'"),
        (lambda: Sink.to_sql_table(print, "t", ["a"], "b"), r"key \['b'\] must be among the columns \['a'\]"),
    ):
        with pytest.raises(BuildError, match=message):
            make()


# ── object files ──────────────────────────────────────────────────────────────────────────────────────────────────────


def joined(batch: list[int]) -> bytes:
    return ",".join(map(str, batch)).encode()


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_batches_become_files_of_any_store(tmp_path, scheme):
    import fsspec

    root = f"file://{tmp_path}" if scheme == "file" else f"memory://{tmp_path.name}"
    sink = Sink.to_objects(lambda batch: f"{root}/part-{batch[0]:05}", joined, max=40, within="1h")
    for _ in range(2):  # written again, the files are the same
        assert Source.range(0, 100).run_with(sink).result(10) == 100
    files = fsspec.open_files(f"{root}/part-*")
    found = {}
    for each in files:
        with each as file:
            found[each.path.rpartition("/")[2]] = file.read()
    assert found == {f"part-{i:05}": joined(list(range(i, min(i + 40, 100)))) for i in (0, 40, 80)}


def test_an_object_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    url = f"file://{tmp_path}/file/part"
    with pytest.raises(OSError) as raised:
        Source.single(1).run_with(Sink.to_objects(lambda batch: url, joined)).result(10)
    assert f"writing {url}" in raised.value.__notes__
    with pytest.raises(TypeError, match="encode must return bytes, got str '1'"):
        Source.single(1).run_with(Sink.to_objects(lambda batch: url, lambda batch: "1")).result(10)


# ── what they leave behind ────────────────────────────────────────────────────────────────────────────────────────────


@own_process
def test_two_hundred_runs_leave_no_descriptor_and_no_thread(tmp_path):
    def connect() -> Any:
        connection = sqlite3.connect(tmp_path / "db")
        connection.execute("PRAGMA synchronous=OFF")  # a power cut is not what is tested here
        return connection

    with connect() as connection:
        connection.execute("CREATE TABLE t (a)")

    def once() -> None:
        Source.range(0, 10).run_with(Sink.batches(len, 3)).result(10)
        Source.range(0, 10).run_with(
            Sink.to_sql(connect, "INSERT INTO t VALUES (?)", row=lambda n: (n,), max=3)
        ).result(10)
        Source.range(0, 10).run_with(
            Sink.to_sql(connect, "INSERT INTO u VALUES (?)", row=lambda n: (n,), max=3)
        ).exception(10)

    def settled() -> tuple[int, int]:
        for _ in range(100):  # a writer's thread ends behind the end of its stream
            if not any(t.name.startswith("streamactors-to_sql") for t in threading.enumerate()):
                break
            threading.Event().wait(0.05)
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    for _ in range(20):
        once()
    descriptors, threads = settled()
    for _ in range(200):
        once()
    after = settled()
    assert after[0] <= descriptors
    assert after[1] <= threads + 20, "the pool grows with the load, not with the number of runs"
