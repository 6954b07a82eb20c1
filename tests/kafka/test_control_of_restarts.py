"""Controls that stand for another one: what they pass on, and when they are over. The sources are the test's."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import BuildError, Keep, Sink, Source
from streamactors.actors.futures import StreamFuture
from streamactors.kafka import Control, DrainingControl, NoopControl, RestartControl


class Noted(Control):
    """Notes its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def stop(self) -> None:
        self.calls.append("stop")

    def stop_at_end(self) -> None:
        self.calls.append("stop at end")

    def pause(self, *partitions: tuple[str, int]) -> None:
        self.calls.append(("pause", *partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        self.calls.append(("resume", *partitions))

    def snapshot(self, timeout: Any = 5.0) -> dict[str, Any]:
        return {"timeout": timeout}


def run(control: RestartControl) -> Noted:
    """Run the next instance of a source whose control is noted."""
    instance = Noted()
    graph = control.follow(Source.empty().map_materialized_value(lambda _: instance)).to_mat(Sink.ignore(), Keep.left)
    assert graph.run() is instance
    return instance


STOPS = ["stop", "stop at end"]


def stop(control: Control, how: str) -> None:
    control.stop() if how == "stop" else control.stop_at_end()


@pytest.mark.parametrize("how", STOPS)
def test_a_stop_before_the_first_instance_is_over_at_once_and_nothing_is_made(how: str) -> None:
    control = RestartControl()
    stop(control, how)
    assert control.is_shutdown.result(0) is None
    with pytest.raises(BaseException) as refused:
        control.follow(Source.empty())
    assert type(refused.value).__name__ == "NoMoreRestarts"


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("error", [None, ValueError("not closed")])
def test_a_stop_goes_to_the_running_instance_and_is_over_when_that_is(how: str, error: Exception | None) -> None:
    control = RestartControl()
    run(control)
    running = run(control)
    stop(control, how)
    assert running.calls == [how]
    assert not control.is_shutdown.done()
    if error is None:
        running.is_shutdown.try_complete(None)
        assert control.is_shutdown.result(0) is None
    else:
        running.is_shutdown.try_fail(error)
        assert control.is_shutdown.exception(0) is error


def test_an_instance_that_begins_after_the_stop_is_stopped() -> None:
    control = RestartControl()
    late = Source.empty().map_materialized_value(lambda _: instance)
    instance = Noted()
    graph = control.follow(late).to_mat(Sink.ignore(), Keep.left)
    control.stop()
    graph.run()
    assert instance.calls == ["stop"]


def test_a_pause_holds_for_the_instances_that_follow_until_it_is_taken_back() -> None:
    control = RestartControl()
    control.pause(("a", 0), ("a", 1), ("b", 0))
    first = run(control)
    assert first.calls == [("pause", ("a", 0), ("a", 1), ("b", 0))]
    control.resume(("a", 1), ("c", 7))
    control.pause(("d", 0))
    assert first.calls[1:] == [("resume", ("a", 1), ("c", 7)), ("pause", ("d", 0))]
    second = run(control)
    assert second.calls == [("pause", ("a", 0), ("b", 0), ("d", 0))]
    control.resume(("a", 0), ("b", 0), ("d", 0))
    assert run(control).calls == []


def test_a_snapshot_is_that_of_the_instance_with_the_number_of_restarts() -> None:
    control = RestartControl()
    assert control.snapshot()["restarts"] == 0
    for restarts in range(3):
        run(control)
        assert control.snapshot(7) == {"timeout": 7, "restarts": restarts}


def test_a_draining_control_passes_everything_on() -> None:
    inner = Noted()
    done: StreamFuture[int] = StreamFuture("done")
    control = DrainingControl.create(inner, done)
    control.stop()
    control.stop_at_end()
    control.pause(("a", 0))
    control.resume(("a", 0))
    assert inner.calls == ["stop", "stop at end", ("pause", ("a", 0)), ("resume", ("a", 0))]
    assert control.snapshot(3) == {"timeout": 3}
    assert control.is_shutdown is inner.is_shutdown
    assert control.stream_completion is done


@pytest.mark.parametrize("parts", [(Noted(), 5), (5, StreamFuture("done")), (StreamFuture("done"), Noted())])
def test_a_draining_control_wants_a_control_and_a_future(parts: tuple[Any, Any]) -> None:
    with pytest.raises(BuildError, match=f"got {type(parts[0]).__name__} and {type(parts[1]).__name__}"):
        DrainingControl.create(*parts)


def test_a_control_without_a_source_is_over_and_does_nothing() -> None:
    control = NoopControl()
    assert control.is_shutdown.result(0) is None
    control.stop()
    control.stop_at_end()
    control.pause(("a", 0))
    control.resume(("a", 0))
