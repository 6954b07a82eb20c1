"""DrainingControl: the control of a source together with the result of its stream. Owner: the user, who makes it with `to_mat`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration
from streamactors.errors import BuildError
from streamactors.kafka.controls.control import Control, ControlFollower
from streamactors.kafka.controls.parts import Passed

if TYPE_CHECKING:
    from streamactors.windows.stage.queryable_store import QueryableStore

T = TypeVar("T")


class Completing(Protocol[T]):
    """The handle of a run with a future of its end."""

    @property
    def completion(self) -> StreamFuture[T]: ...


class DrainingControl(Control, Generic[T]):
    """A control together with the stream's completion: `to_mat(sink, DrainingControl.create)`."""

    if not TYPE_CHECKING:
        is_shutdown, started, completion, graph, group, restarts = (Passed() for _ in range(6))
        run, open_store, look, rebalances, is_draining = (Passed() for _ in range(5))

    def __init__(self, control: Control, completion: StreamFuture[T]) -> None:
        self._stands_for = control
        self.stream_completion = completion

    @classmethod
    def create(cls, control: Control, completion: StreamFuture[T] | Completing[T]) -> DrainingControl[T]:
        """Combine what a consumer source and a sink materialize: a future, or a handle with a future `completion`, as SparkSink's query.

        Raises BuildError where they are something else."""
        done: Any = getattr(completion, "completion", completion)
        if not isinstance(control, Control) or not isinstance(done, Future):
            raise BuildError(
                "DrainingControl.create combines the control of a Consumer source with the future of a sink, got "
                f"{type(control).__name__} and {type(completion).__name__}; source.to_mat(sink, DrainingControl.create) keeps "
                "the source's on the left"
            )
        return cls(control, cast("StreamFuture[T]", done))

    def attach(self, tell: Callable[[Any], None], complete: Callable[[], None]) -> None:
        self._stands_for.attach(tell, complete)

    def closed(self, last: dict[str, Any]) -> None:
        self._stands_for.closed(last)

    def stop(self) -> None:
        self._stands_for.stop()

    def stop_at_end(self) -> None:
        self._stands_for.stop_at_end()

    def drain(self, completion: Any = None) -> StreamFuture[Any]:
        """Stop, and return a future that is done after the last commit, with the stream's result: await it in a coroutine.

        It fails with the stream's error, or else with the error of the last commit. The control knows the `completion`."""
        return self._stands_for.drain(self.stream_completion)

    def drain_and_shutdown(self, completion: Any = None, timeout: Duration | None = None) -> Any:
        """Stop, wait for the stream's result and the last commit; return the result, raise the stream's error. A coroutine awaits `drain`.

        TimeoutError after `timeout` (seconds, a timedelta or a string; None: no limit) for all of it."""
        return self._stands_for.drain_and_shutdown(self.stream_completion, timeout)

    def store(self, name: str) -> QueryableStore:
        return self._stands_for.store(name)

    def pause(self, *partitions: tuple[str, int]) -> None:
        self._stands_for.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._stands_for.resume(*partitions)

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        return self._stands_for.snapshot(timeout)

    def ask_snapshot(self) -> StreamFuture[dict[str, Any]]:
        return self._stands_for.ask_snapshot()

    def follower(self, stopped: Callable[[], object]) -> ControlFollower:
        """Return what stands for this control while its run is restarted; `stopped()` is called when the user stops it."""
        return self._stands_for.follower(stopped)
