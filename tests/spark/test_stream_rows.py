"""The source over a streaming DataFrame beside a query that the test plays: every way it ends. Without Spark."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.island.run import runs_of
from streamactors.spark.errors import SparkError
from streamactors.spark.frames import stream_rows
from streamactors.spark.frames.stream_rows import DONE, StreamRows
from streamactors.spark.query.runner import INTERRUPTED
from tests.actors.eventually import eventually


class FakeQuery:
    """Spark's query: the test has it write batches, and ends it; asked to stop, it ends when its batch is over."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.write: Any = None
        self.on_ended: Any = None
        self.stopped, self.started = threading.Event(), threading.Event()

    def runner(self, spark: Any, write: Any, *_: Any, on_started: Any, on_ended: Any, **__: Any) -> Any:
        self.write, self.on_ended = write, on_ended
        on_started(SimpleNamespace(id="q", isActive=True))
        return SimpleNamespace(start=self.started.set, stop=self.stopped.set)

    def files_of(self, spark: Any, checkpoint: str) -> Any:
        return SimpleNamespace(
            make=lambda: None,
            has=self.files.__contains__,
            read=self.files.__getitem__,
            write=lambda text, name: self.files.update({name: text}),
        )

    def batch(self, epoch: int, *chunks: list[int]) -> Exception | None:
        """Write a batch on this thread; return its error."""
        try:
            self.write(chunks, epoch, "q")
        except Exception as error:
            return error
        return None


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> FakeQuery:
    query = FakeQuery()
    monkeypatch.setattr(stream_rows, "_Runner", query.runner)
    monkeypatch.setattr(stream_rows, "Files", query.files_of)
    monkeypatch.setattr(stream_rows, "record_batches", lambda chunks: chunks)
    return query


def rows() -> Any:
    return Source.from_stage(StreamRows(SimpleNamespace(sparkSession=None), list, "ck", {}))


def test_the_rows_of_every_batch_come_out_before_the_stream_ends(query: FakeQuery, actor_system: ActorSystem) -> None:
    seen: list[int] = []
    done = rows().run_with(Sink.foreach(seen.append), actor_system)
    assert query.started.wait(30)
    for epoch in range(3):
        assert query.batch(epoch, [epoch * 10], [epoch * 10 + 1, epoch * 10 + 2]) is None
        assert json.loads(query.files[DONE]) == {"version": 1, "query": "q", "done": epoch + 1}
    query.on_ended(None)
    done.result(30)
    assert seen == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_a_batch_that_was_done_is_not_given_again_and_one_of_another_query_is(
    query: FakeQuery, actor_system: ActorSystem
) -> None:
    query.files[DONE] = json.dumps({"version": 1, "query": "q", "done": 2})
    seen: list[int] = []
    done = rows().run_with(Sink.foreach(seen.append), actor_system)
    assert query.started.wait(30)
    assert query.batch(1, [1]) is None
    assert query.batch(2, [2]) is None
    query.files[DONE] = json.dumps({"version": 1, "query": "another", "done": 9})
    assert query.batch(3, [3]) is None
    query.on_ended(None)
    done.result(30)
    assert seen == [2, 3]


def test_a_stream_that_is_left_ends_with_the_query_and_its_batch_is_not_committed(
    query: FakeQuery, actor_system: ActorSystem
) -> None:
    done = rows().take(2).run_with(Sink.to_list(), actor_system)
    assert query.started.wait(30)
    error = query.batch(0, [1], [2], [3], [4], [5])
    assert done.result(30) == [1, 2]
    assert str(error) == INTERRUPTED
    assert DONE not in query.files
    assert query.stopped.wait(30)
    assert runs_of(actor_system)  # the query still runs
    query.on_ended(None)
    eventually(lambda: not runs_of(actor_system), 30)
    assert str(query.batch(1, [6])) == INTERRUPTED


def test_a_stream_that_fails_says_so_to_spark(query: FakeQuery, actor_system: ActorSystem) -> None:
    def fails(n: int) -> None:
        raise OSError(f"the disk is full at {n}")

    done = rows().run_with(Sink.foreach(fails), actor_system)
    assert query.started.wait(30)
    assert "the stream has failed: OSError: the disk is full at 7" in str(query.batch(0, [7]))
    assert isinstance(done.exception(30), OSError)
    assert query.stopped.wait(30)
    query.on_ended(None)
    eventually(lambda: not runs_of(actor_system), 30)


def test_a_query_that_fails_fails_the_stream(query: FakeQuery, actor_system: ActorSystem) -> None:
    handle, done = rows().to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert query.started.wait(30)
    query.on_ended(ValueError("no such column"))
    assert str(done.exception(30)) == str(handle.exception()) == "no such column"
    eventually(lambda: not runs_of(actor_system), 30)


def test_a_system_that_ends_stops_the_query(query: FakeQuery) -> None:
    with ActorSystem("ends") as system:
        handle, _ = rows().to_mat(Sink.ignore(), Keep.both).run(system)
        assert query.started.wait(30)
        assert not query.stopped.is_set()
    assert query.stopped.is_set()
    assert "the stream was ended" in str(handle.exception())


def test_a_checkpoint_that_cannot_be_reached_ends_the_query(
    query: FakeQuery, actor_system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # who waited for the end of the query waited forever
    def unreachable(*_: Any) -> None:
        raise SparkError("hdfs://nowhere: Spark cannot use its file system")

    monkeypatch.setattr(stream_rows, "Files", unreachable)
    handle, done = rows().to_mat(Sink.ignore(), Keep.both).run(actor_system)
    error = done.exception(30)
    assert isinstance(error, SparkError)
    eventually(lambda: not runs_of(actor_system), 30)
    assert not handle.is_active
    assert handle.exception() is error
