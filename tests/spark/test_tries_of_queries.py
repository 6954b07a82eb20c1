"""The runner of a query: its second tries, the first line of a failure, and an end that waits for the user's function."""

from __future__ import annotations

import sys
import threading
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.spark import SparkQueryFailed, SparkSetupError
from streamactors.spark.query import runner as query_runner
from streamactors.spark.query.runner import NO_WORKER, RETRIES, SHORT_INTERRUPT, QueryRunner


class Query:
    id = "q"

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def awaitTermination(self, timeout: float) -> bool:
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        pass


class Runner(QueryRunner):
    def __init__(self, ends: list[Exception | None], fn: Any = None, *, python: str = sys.executable) -> None:
        self.outcome: list[BaseException | None] = []
        spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object(), pythonExec=python))
        super().__init__(
            spark, fn, None, "ck", {}, None, prepare=dict, on_started=lambda query: None, on_ended=self.outcome.append
        )
        self.ends = ends

    def _start(self, options: Any) -> Query:
        return Query(self.ends.pop(0))


def failure(text: str) -> Exception:
    from pyspark.errors import StreamingQueryException

    return StreamingQueryException(text)


@pytest.mark.expects_log("did not start within", again=True)
def test_a_python_process_that_came_up_too_late_is_tried_again() -> None:
    runner = Runner([failure(f"x: {NO_WORKER}"), failure(f"y: {NO_WORKER}"), None])
    runner._run()
    assert runner.outcome == [None]
    assert runner.ends == []


@pytest.mark.expects_log("did not start within", again=True)
def test_tries_come_to_an_end() -> None:
    runner = Runner([failure(NO_WORKER)] * 20)
    runner._run()
    assert isinstance(runner.outcome[0], SparkQueryFailed)
    assert len(runner.ends) == 20 - RETRIES - 1


@pytest.mark.parametrize(
    "text", [NO_WORKER, "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: None"]
)
def test_a_worker_without_pyarrow_is_named_at_the_first_failure(tmp_path: Path, text: str) -> None:
    """The query was started again ten times, 10 s each, and ended with Spark's words, which name no module."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    runner = Runner([failure(text), None], python=python)
    runner._run()
    assert isinstance(runner.outcome[0], SparkSetupError)
    assert str(runner.outcome[0]).startswith(
        f"Spark's Python on this host, {python}, has no pyarrow; install it there, or set"
    )
    assert runner.ends == [None]


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    python = str(tmp_path / "python")
    runner = Runner([failure(f'Cannot run program "{python}"')], python=python)
    runner._run()
    assert isinstance(runner.outcome[0], SparkSetupError)
    assert f"{python}, cannot be started (No such file or directory)" in str(runner.outcome[0])


def test_any_other_failure_is_told_in_sparks_first_line() -> None:
    runner = Runner([failure("[STREAM_FAILED] it broke\n=== Streaming Query ===\nmuch more")])
    runner._run()
    assert str(runner.outcome[0]) == "[STREAM_FAILED] it broke"


def test_a_full_disk_is_said_with_the_way_out() -> None:
    runner = Runner(
        [failure("[STREAM_FAILED] Query [id = 1] terminated with exception: No space left on device\nat …")]
    )
    runner._run()
    assert "no space is left for checkpoint ck" in str(runner.outcome[0])
    assert "continues at the checkpoint" in str(runner.outcome[0])


def test_an_interrupt_of_the_users_function_is_told_to_spark_in_the_form_it_understands() -> None:
    def interrupted(frame: Any, epoch: int, query_id: str) -> None:
        raise ValueError("An error occurred\n: java.lang.InterruptedException\n" + "\tat x\n" * 500)

    runner = Runner([None], interrupted)
    runner._run()
    with pytest.raises(RuntimeError) as raised:
        runner._call(None, 0)
    assert str(raised.value) == SHORT_INTERRUPT


class Blocked(Runner):
    """A query that ends when the function that writes its batch has returned."""

    def __init__(self) -> None:
        self.entered, self.release, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.over = threading.Event()
        super().__init__([None], self._write)
        self._on_ended = lambda error: self.over.set()

    def _write(self, frame: Any, epoch: int, query_id: str) -> None:
        self.entered.set()
        assert self.release.wait(60)
        self.ended.set()

    def _start(self, options: Any) -> Any:
        this = self

        class Waiting(Query):
            status = {"isTriggerActive": True}  # as in PySpark

            @property
            def isActive(self) -> bool:
                return not this.ended.is_set()

            def awaitTermination(self, timeout: float) -> bool:
                return this.ended.wait(60)

        return Waiting(None)

    def _await_end(self, options: Any, attempt: int) -> bool:
        self._spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object()))
        return super()._await_end(options, attempt)


@pytest.mark.parametrize("how", ["stop", "stop_between_batches"])
def test_a_query_that_waits_for_the_users_function_says_so_once(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    told = threading.Event()

    def warning(text: str, *values: object) -> None:
        texts.append(text % values)
        told.set()

    monkeypatch.setattr(query_runner, "SLOW_END_S", 0.01)
    monkeypatch.setattr(query_runner._log, "warning", warning)
    blocked = Blocked()
    blocked.start()
    writes = threading.Thread(target=blocked._call, args=(None, 7))
    writes.start()
    assert blocked.entered.wait(60)
    assert texts == []  # nobody has asked for the end yet
    getattr(blocked, how)()
    assert told.wait(60)
    getattr(blocked, how)()
    blocked.release.set()
    assert blocked.over.wait(60)
    assert texts == [
        "checkpoint ck: the stream has ended, or the query was asked to end, 0.01 s ago, and the query still runs; it waits for the function that writes batch 7, "
        "and ends when that function returns"
    ]


def test_a_query_that_has_ended_says_nothing_when_it_is_stopped() -> None:
    runner = Runner([None])
    runner._run()
    runner.stop()
    assert runner._slow_end is None


def test_a_query_that_ends_in_time_says_nothing() -> None:
    blocked = Blocked()
    blocked.release.set()
    blocked.stop()
    waits = blocked._slow_end
    assert waits is not None
    blocked.ended.set()
    blocked._run()
    assert waits.finished.is_set()  # cancelled
