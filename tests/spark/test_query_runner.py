"""How a query ends: stopped at once, between two batches, while it starts, with its session, with its JVM. Without Spark."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from streamactors.spark.errors import SparkQueryFailed
from streamactors.spark.query import runner as query_runner
from streamactors.spark.query.runner import QueryRunner


class FakeQuery:
    """A query that runs until it is stopped, and whose batch is active as long as the test says."""

    id = "q"

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.looked = threading.Event()
        self.batch_active = False
        self.stops_while_active = 0
        self.gone: Exception | None = None

    @property
    def isActive(self) -> bool:
        if self.gone is not None:
            raise self.gone
        return not self.stopped.is_set()

    @property
    def status(self) -> dict[str, bool]:
        self.looked.set()
        return {"isTriggerActive": self.batch_active}

    def awaitTermination(self, timeout: float) -> bool:
        return self.stopped.wait(timeout)

    def stop(self) -> None:
        self.stops_while_active += self.batch_active
        self.stopped.set()


class Rig:
    """A runner of one fake query."""

    def __init__(self, prepare: Callable[[], dict[str, str]] = dict) -> None:
        self.query = FakeQuery()
        self.outcomes: list[BaseException | None] = []
        self.over, self.running = threading.Event(), threading.Event()
        self.spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object()))
        self.runner = QueryRunner(
            self.spark,
            lambda frame, epoch, query_id: None,
            None,
            "ck",
            {},
            None,
            prepare=prepare,
            on_started=lambda query: self.running.set(),
            on_ended=self._ended,
        )
        self.runner._start = lambda options: self.query  # type: ignore[method-assign]

    def _ended(self, error: BaseException | None) -> None:
        self.outcomes.append(error)
        self.over.set()

    def ends(self) -> BaseException | None:
        assert self.over.wait(60)
        (outcome,) = self.outcomes
        return outcome


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(query_runner, "LOOK_S", 0.001)
    monkeypatch.setattr(query_runner, "SESSION_LOOK_S", 0.001)
    return Rig()


def test_a_query_is_stopped_behind_the_batch_that_is_being_written(rig: Rig) -> None:
    rig.query.batch_active = True
    rig.runner.start()
    rig.runner._started.wait(60)
    rig.runner.stop_between_batches()
    assert rig.query.looked.wait(60)
    rig.query.looked.clear()
    assert rig.query.looked.wait(60)  # it looks again
    assert not rig.query.stopped.is_set()
    rig.query.batch_active = False
    assert rig.ends() is None
    assert rig.query.stops_while_active == 0


def test_a_query_is_stopped_at_once_in_the_middle_of_a_batch(rig: Rig) -> None:
    rig.query.batch_active = True
    rig.runner.start()
    rig.runner._started.wait(60)
    rig.runner.stop()
    assert rig.ends() is None
    assert rig.query.stops_while_active == 1
    rig.runner.stop()
    rig.runner.stop_between_batches()  # it has ended already


@pytest.mark.parametrize("how", ["stop", "stop_between_batches"])
def test_a_query_that_is_asked_to_end_before_it_has_started_is_stopped_when_it_has(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_runner, "LOOK_S", 0.001)
    asked = threading.Event()

    def prepare() -> dict[str, str]:
        assert asked.wait(60)
        return {}

    rig = Rig(prepare)
    rig.runner.start()
    getattr(rig.runner, how)()
    for thread in threading.enumerate():
        if thread.name == "drain spark query":
            thread.join(60)
    asked.set()
    assert rig.ends() is None
    assert rig.query.stopped.is_set()


def test_a_query_whose_jvm_has_gone_is_not_waited_for(rig: Rig) -> None:
    rig.query.batch_active = True
    rig.runner.start()
    rig.runner._started.wait(60)
    rig.query.gone = ConnectionError("no JVM")
    rig.runner.stop_between_batches()
    assert rig.ends() is None
    assert rig.query.stopped.is_set()


def test_a_query_whose_session_was_stopped_ends_with_the_way_out(rig: Rig) -> None:
    rig.runner.start()
    assert rig.running.wait(60)
    rig.spark.sparkContext._jsc = None
    outcome = rig.ends()
    assert isinstance(outcome, SparkQueryFailed)
    assert "session was stopped while the query ran" in str(outcome)
    assert rig.query.stopped.is_set()


def test_what_prevents_the_start_is_the_outcome() -> None:
    def prepare() -> dict[str, str]:
        raise OSError("no place for a checkpoint")

    rig = Rig(prepare)
    rig.runner.start()
    outcome = rig.ends()
    assert str(outcome) == "no place for a checkpoint"
    assert not rig.running.is_set()


def test_the_error_of_the_users_function_is_the_outcome_whatever_spark_makes_of_it(rig: Rig) -> None:
    def fails(frame: Any, epoch: int, query_id: str) -> None:
        assert (epoch, query_id) == (3, "q")
        raise KeyError("price")

    rig.runner._fn = fails
    rig.runner.start()
    rig.runner._started.wait(60)
    with pytest.raises(KeyError):
        rig.runner._call(None, 3)
    rig.query.awaitTermination = _raises(RuntimeError("[STREAM_FAILED] …"))  # type: ignore[method-assign]
    assert isinstance(rig.ends(), KeyError)
    assert rig.runner._writing is None


@pytest.mark.parametrize("error", [SystemExit("no configuration"), KeyboardInterrupt(), CancelledError()])
def test_an_exit_of_the_users_function_is_the_outcome_and_spark_gets_an_answer(rig: Rig, error: BaseException) -> None:
    """Py4J answers the JVM for an Exception only: after `sys.exit` Spark waited for the end of the batch without end."""
    rig.runner._fn = _raises(error)
    rig.runner.start()
    rig.runner._started.wait(60)
    with pytest.raises(RuntimeError, match=type(error).__name__) as answer:
        rig.runner._call(None, 3)
    assert answer.value.__cause__ is error
    rig.query.awaitTermination = _raises(RuntimeError("[STREAM_FAILED] …"))  # type: ignore[method-assign]
    assert rig.ends() is error


class Jvm:
    """What is called of a session's JVM."""

    def __init__(self, *, gone: bool) -> None:
        self.gone = gone

    def nanoTime(self) -> int:
        if self.gone:
            raise ConnectionRefusedError(111, "Connection refused")
        return 1


def _outcome_of_a_function_that_raises(rig: Rig, error: Exception, *, jvm_gone: bool) -> BaseException | None:
    system = SimpleNamespace(System=Jvm(gone=jvm_gone))
    rig.spark._jvm = SimpleNamespace(java=SimpleNamespace(lang=system))
    rig.runner._fn = _raises(error)
    rig.runner.start()
    rig.runner._started.wait(60)
    with pytest.raises(type(error)):
        rig.runner._call(None, 3)
    rig.query.awaitTermination = _raises(Py4JNetworkError("Answer from Java side is empty"))  # type: ignore[method-assign]
    return rig.ends()


def _wrapped(cause: Exception) -> Exception:
    error = LookupError("the batch could not be written")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o55.collectToPython"),
        ConnectionRefusedError(111, "Connection refused"),
        _wrapped(Py4JNetworkError("Answer from Java side is empty")),
    ],
)
def test_a_jvm_that_dies_while_the_function_calls_it_is_the_outcome(rig: Rig, error: Exception) -> None:
    outcome = _outcome_of_a_function_that_raises(rig, error, jvm_gone=True)
    assert type(outcome) is SparkQueryFailed
    assert str(outcome).endswith("start the program again; its graph continues from the checkpoint")
    assert outcome.__cause__ is error


@pytest.mark.parametrize(
    ("error", "jvm_gone"),
    [
        (ConnectionRefusedError(111, "the user's database"), False),
        (Py4JError("a method that the JVM does not have"), False),
        (ValueError("price"), True),
    ],
)
def test_an_error_of_the_function_that_is_not_a_lost_jvm_stays(rig: Rig, error: Exception, jvm_gone: bool) -> None:
    assert _outcome_of_a_function_that_raises(rig, error, jvm_gone=jvm_gone) is error


def _raises(error: BaseException) -> Callable[..., bool]:
    def fail(*arguments: Any) -> bool:
        raise error

    return fail


def test_a_first_batch_waits_until_the_query_is_known(rig: Rig) -> None:
    """Spark may call the function before `start()` has returned."""
    seen: list[str] = []
    rig.runner._fn = lambda frame, epoch, query_id: seen.append(query_id)
    batch = threading.Thread(target=rig.runner._call, args=(None, 0))
    batch.start()
    assert seen == []
    rig.runner.start()
    batch.join(60)
    rig.runner.stop()
    assert rig.ends() is None
    assert seen == ["q"]


def test_a_query_that_fails_while_its_session_stops_names_the_session(rig: Rig) -> None:
    # Spark fails the query before `stop` of the session returns, with whatever it met first.
    stops = threading.Event()
    rig.spark.sparkContext._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=stops.is_set))

    def fails(timeout: float) -> bool:
        if stops.wait(timeout):
            raise RuntimeError("Exception thrown in awaitResult: ")
        return False

    rig.query.awaitTermination = fails  # type: ignore[method-assign]
    rig.runner.start()
    assert rig.running.wait(60)
    stops.set()
    outcome = rig.ends()
    assert isinstance(outcome, SparkQueryFailed)
    assert "the Spark session was stopped while the query ran" in str(outcome)
