"""A sink into Spark beside its sources, without a stream and without Spark: who begins where, and what is too late."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from streamactors.engine.logic import Logic
from streamactors.errors import AbruptTermination
from streamactors.spark.errors import SparkError
from streamactors.spark.sink import sink_logic
from streamactors.spark.sink.settings import SinkTarget
from streamactors.spark.sink.sink_logic import SparkSinkLogic


class Handle:
    """A source that waits for its position."""

    bounded = True

    def __init__(self, label: str, **ends: int) -> None:
        self.label = label
        self._ends = ends
        self.begun: list[tuple[Any, ...]] = []

    def ends(self) -> dict[str, int]:
        return self._ends

    def initial(self) -> dict[str, int]:
        return dict.fromkeys(self._ends, 0)

    def identity(self) -> dict[str, str]:
        return {"topic": self.label}

    def begin(self, start: Any, until: Any, *, skip_lost: bool) -> None:
        self.begun.append((start, until, skip_lost))


@pytest.fixture
def logic() -> SparkSinkLogic:
    schema = SimpleNamespace(arrow=pyarrow.schema([("n", pyarrow.int64())]))
    target: Any = SinkTarget(None, print, schema, "ck", 10)  # type: ignore[arg-type]
    logic = SparkSinkLogic(target)
    logic._order = ["left", "right"]  # the sources by their place in the graph
    logic.failures = []  # type: ignore[attr-defined]
    logic.async_callback = lambda fn: SimpleNamespace(  # type: ignore[method-assign,assignment]
        invoke=lambda argument: logic.failures.append(argument)  # type: ignore[attr-defined]
    )
    return logic


def test_a_source_that_never_starts_is_an_error_and_not_a_wait_for_ever(
    logic: SparkSinkLogic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_logic, "CLAIM_TIMEOUT_S", 0.01)
    logic.claim("right", Handle("right"))  # type: ignore[arg-type]
    with pytest.raises(SparkError, match="a source of the graph did not start"):
        logic._ends()


def test_the_sources_are_waited_for_and_keep_their_places(logic: SparkSinkLogic) -> None:
    left, right = Handle("left", a=1, b=2), Handle("right", a=9)
    found: list[Any] = []
    asks = threading.Thread(target=lambda: found.append(logic._ends()))
    asks.start()
    logic.claim("right", right)  # type: ignore[arg-type]
    assert found == []
    logic.claim("left", left)  # type: ignore[arg-type]
    asks.join(60)
    assert found == [{"0/a": 1, "0/b": 2, "1/a": 9}]


def test_each_source_begins_at_its_own_part_of_the_positions(logic: SparkSinkLogic) -> None:
    left, right = Handle("left", a=1, b=2), Handle("right", a=9)
    for name, handle in (("left", left), ("right", right)):
        logic.claim(name, handle)  # type: ignore[arg-type]
    begun: list[Any] = []
    logic._batches = SimpleNamespace(begin=lambda start, until: begun.append((start, until)))  # type: ignore[assignment]
    start, until = {"0/a": 1, "0/b": 2, "1/a": 3, "10/a": 7}, {"0/a": 4, "0/b": 5, "1/a": 6}
    logic._begin(start, None)
    logic._begin(start, until)
    assert begun == [(start, None), (start, until)]
    assert left.begun == [({"a": 1, "b": 2}, None, False), ({"a": 1, "b": 2}, {"a": 4, "b": 5}, False)]
    assert right.begun == [({"a": 3}, None, False), ({"a": 3}, {"a": 6}, False)]


def test_a_source_that_starts_again_within_a_run_ends_it(logic: SparkSinkLogic) -> None:
    for _ in range(2):
        logic.claim("left", Handle("numbers"))  # type: ignore[arg-type]
    (failure,) = logic.failures  # type: ignore[attr-defined]
    assert isinstance(failure, SparkError)
    assert "source numbers was started again within the run" in str(failure)


def test_an_error_goes_to_the_stream_as_it_is_and_to_spark_as_text(logic: SparkSinkLogic) -> None:
    error = ValueError("no such offset")
    with pytest.raises(SparkError, match=r"^ValueError: no such offset\n"), logic._own_errors():
        raise error
    own = SparkError("the checkpoint is newer")
    with pytest.raises(SparkError, match=r"^the checkpoint is newer\n"), logic._own_errors():
        raise own
    assert logic.failures == [error, own]  # type: ignore[attr-defined]


@pytest.mark.parametrize("at", ["query first", "stream first"])
def test_a_stage_fails_when_both_its_stream_and_its_query_have_ended(
    logic: SparkSinkLogic, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[BaseException] = []
    calls: list[str] = []
    monkeypatch.setattr(Logic, "fail_stage", lambda self, error: failed.append(error))
    logic.in_ = SimpleNamespace(cancel=lambda cause: calls.append("cancel"))  # type: ignore[assignment]
    logic._batches = SimpleNamespace(fail=lambda error: calls.append("fail"))  # type: ignore[assignment]
    logic._runner = SimpleNamespace(stop=lambda: calls.append("stop"))  # type: ignore[assignment]
    error = OSError("no space")
    if at == "stream first":
        logic.fail_stage(error)
        assert (calls, failed) == (["cancel", "fail", "stop"], [])  # the stage lives until the query has ended
        logic.fail_stage(ValueError("what comes of it"))
        calls.clear()
        logic._on_query_ended(None)
    else:
        logic._on_query_ended(error)
    assert (calls, failed) == ([], [error])


def test_a_stage_completes_when_its_query_has_ended_without_an_error(logic: SparkSinkLogic) -> None:
    ended: list[Any] = []
    progress = SimpleNamespace(sink_ended=ended.append)
    logic.interpreter = SimpleNamespace(island=SimpleNamespace(run=SimpleNamespace(progress=progress)))  # type: ignore[assignment]
    logic.complete_stage = lambda: ended.append("complete")  # type: ignore[method-assign]
    logic._on_query_ended(None)
    assert ended == [logic, "complete"]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("opened", [True, False])
def test_a_stage_that_stops_gives_back_what_it_has_opened_and_ends_its_handle(
    logic: SparkSinkLogic, ended: bool, opened: bool
) -> None:
    done: list[Any] = []
    logic._query_ended = ended
    logic._runner = SimpleNamespace(stop=lambda: done.append("stop"))  # type: ignore[assignment]
    logic.query = SimpleNamespace(end=done.append)  # type: ignore[assignment]
    if opened:
        logic._bridge = SimpleNamespace(close=lambda: done.append("bridge"))  # type: ignore[assignment]
        logic._checkpoint = SimpleNamespace(close=lambda: done.append("checkpoint"))  # type: ignore[assignment]
    logic.on_stop()
    *before, error = done
    assert before == ([] if ended else ["stop"]) + (["bridge", "checkpoint"] if opened else [])
    assert (error is None) == ended


@pytest.mark.parametrize("moment", ["before", "in the middle", "behind"])
def test_a_stage_that_stops_while_its_query_is_prepared_holds_nothing(
    logic: SparkSinkLogic, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the actor system ended while Spark was asked: the lock of the checkpoint stayed, so no other run of the process could take it
    held: set[str] = set()

    def stop(now: str) -> None:
        if now == moment:
            logic.stopped = True
            logic.on_stop()

    class Opened:
        """A checkpoint or a bridge; `address` is a bridge's."""

        address = ("127.0.0.1", 1)
        options: dict[str, str] = {}

        def __init__(self, *arguments: Any) -> None:
            self.name = f"opened with {len(arguments)}"

        def open(self, *_: Any, **__: Any) -> None:
            held.add(self.name)
            stop("in the middle")

        start = open

        def close(self) -> None:
            held.discard(self.name)

    for name in ("Checkpoint", "Bridge"):
        monkeypatch.setattr(sink_logic, name, Opened)
    monkeypatch.setattr(sink_logic, "Files", lambda *_: None)
    logic._target.schema.spark = SimpleNamespace(simpleString=lambda: "n long")  # type: ignore[misc]
    spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1, master="local"))
    logic._target = replace(logic._target, spark=spark)
    logic._runner = SimpleNamespace(stop=lambda: None, name_otherwise=lambda _: None)  # type: ignore[assignment]
    logic._order = []
    stop("before")
    if moment == "behind":
        assert logic._prepare()["port"] == "1"
        assert len(held) == 2
        stop("behind")
    else:
        with pytest.raises(AbruptTermination):
            logic._prepare()
    assert held == set()
