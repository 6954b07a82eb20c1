"""Control: stop or drain a running Kafka source, pause its partitions, and look at its state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration, duration_s
from streamactors.engine.island.run import Run
from streamactors.errors import BuildError
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.messages import PausePartitions, ResumePartitions, StopAtEnd, TakeSnapshot
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.living import Living

if TYPE_CHECKING:
    from streamactors.kafka.reading.assignment.rebalance_log import Rebalance
    from streamactors.windows.stage.queryable_store import QueryableStore
from streamactors.errors import UnknownStore

T = TypeVar("T")


ANSWERS_S = 1.0
"""How long a snapshot waits for the consumer's answer before it reads the state itself: the consumer may be waiting for its stream in a rebalance."""

RUNNING: Living[Control] = Living()
"""The controls of this process whose consumers run."""


class Control:
    """Materialized by every consumer source. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.is_shutdown: StreamFuture[None] = StreamFuture("consumer")
        """Done when the consumer has left the group and closed; fails with the consumer's error."""
        self.completion: StreamFuture[Any] | None = None
        """For the graph of a topology (`topics.graph()`): done when everything is written; fails with the graph's error. None for other graphs."""
        self.graph = self.group = ""
        """The name of the graph, or of the source, and the consumer group; known when the source runs."""
        self.restarts = 0
        """Number of earlier runs of the stream, which were aborted and restarted."""
        self.run: Callable[[], Run | None] | None = None
        """Returns the run while there is one; known when the run is built."""
        self.open_store: Callable[[Run, str], QueryableStore] | None = None
        """Returns a store of a run by its name; known when the run is built."""
        self.look: Callable[[], dict[str, Any]] | None = None
        """Returns the snapshot without asking the consumer; known when the consumer has started."""
        self.rebalances: Callable[[], tuple[Rebalance, ...]] = tuple
        """Returns the last rebalances of the consumer, the oldest first."""
        self.is_draining = False
        """`drain_and_shutdown` was called: the consumer stays until the records in flight are committed or the run has ended."""
        self._tell: Callable[[Any], None] | None = None
        self._complete: Callable[[], None] | None = None
        self._early: list[Any] = []  # messages from before the stage started
        self._stop_early = False
        self._last_snapshot: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def attach(self, tell: Callable[[Any], None], complete: Callable[[], None]) -> None:
        """Connect the control to its actor and stage; called once, by the source."""
        with self._lock:
            self._tell = tell
            self._complete = complete
            for message in self._early:  # under the lock: later messages come after these
                tell(message)
            self._early.clear()
            stop = self._stop_early
        if stop:
            complete()

    def closed(self, last: dict[str, Any]) -> None:
        """Keep the last snapshot; called once, by the consumer, before `is_shutdown` is done."""
        self._last_snapshot = last
        RUNNING.discard(self)

    def stop(self) -> None:
        """Complete the stream: deliver no further record; finish and commit the records in flight. Idempotent."""
        with self._lock:
            complete = self._complete
            self._stop_early = complete is None
        if complete is not None:
            complete()

    def stop_at_end(self) -> None:
        """Complete the stream when it has delivered every record that its partitions hold now."""
        self._send(StopAtEnd())

    def shutdown(self) -> StreamFuture[None]:
        """As `stop`; return the future that is done when the records in flight are committed and the consumer is closed."""
        self.stop()
        return self.is_shutdown

    def drain_and_shutdown(
        self, completion: StreamFuture[T] | None = None, timeout: Duration | None = None
    ) -> T | None:
        """Stop, wait for the stream's result and for the last commit, and return the result. `completion`: the future of the sink; a
        topology's graph needs none.

        Raises the stream's error, or else the error of the last commit; TimeoutError after `timeout` (seconds, a timedelta or a
        string; None: no limit) for all of it. `close_timeout_ms` limits the last commit only, when the stream has ended."""
        self.is_draining = True
        self.stop()
        completion = completion or self.completion
        deadline = None if timeout is None else time.monotonic() + duration_s(timeout, "timeout")

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        try:
            result = completion.result(left()) if completion is not None else None
        except BaseException:
            with suppress(Exception):  # the stream's own error is the one to raise
                self.is_shutdown.exception(left())
            raise
        self.is_shutdown.result(left())
        return result

    def store(self, name: str) -> QueryableStore:
        """Return a store of the run by its name, or by that of its step, for reading from outside.

        Raises UnknownStore, which names the stores there are."""
        run = None if self.run is None else self.run()
        if run is None or self.open_store is None:
            raise UnknownStore(f"no store {name!r}: the run has ended, or this control belongs to no run")
        return self.open_store(run, name)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Stop delivery from these partitions until `resume`. Independent of back-pressure; survives rebalances."""
        self._send(PausePartitions(_keys(partitions)))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """End `pause`."""
        self._send(ResumePartitions(_keys(partitions)))

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        """Return the consumer's state: counts, and per partition buffered, demand, paused by whom, position, done, committed, in flight
        and lag. A closed consumer has no partitions. If a consumer is busy for longer, its state is read without it. TimeoutError when the
        source does not start within `timeout` (seconds, a timedelta or a string)."""
        reply: StreamFuture[dict[str, Any]] = StreamFuture("snapshot")
        if self.is_shutdown.done():
            return self._last_snapshot or _without_consumer()
        self._send(TakeSnapshot(reply))
        limit_s = duration_s(timeout, "timeout")
        try:
            return reply.result(min(ANSWERS_S, limit_s))
        except TimeoutError:
            if self.look is not None:
                return self.look()
        return reply.result(max(0.0, limit_s - ANSWERS_S))

    def ask_snapshot(self) -> StreamFuture[dict[str, Any]]:
        """Ask the consumer for its snapshot, and return the future of it; for a closed consumer it is done."""
        reply: StreamFuture[dict[str, Any]] = StreamFuture("snapshot")
        if self.is_shutdown.done():
            reply.try_complete(self._last_snapshot or _without_consumer())
        else:
            self._send(TakeSnapshot(reply))
        return reply

    def metrics(self) -> dict[str, Any]:
        """Return the counts of the snapshot."""
        return {name: value for name, value in self.snapshot().items() if name != "partitions"}

    def follower(self, stopped: Callable[[], object]) -> ControlFollower:
        """Return what stands for this control while its run is restarted; `stopped()` is called when the user stops it."""
        return ControlFollower(FollowingControl(stopped))

    def _send(self, message: Any) -> None:
        with self._lock:
            tell = self._tell
            if tell is None:
                self._early.append(message)
        if tell is not None:
            tell(message)


class FollowingControl(Control):
    """One control for a source that runs again and again: it passes everything on to the control of the last instance."""

    def __init__(self, stopped: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._when_stopped = stopped
        self._current: Control | None = None
        self._paused: dict[TopicPartition, None] = {}
        self._stopped = False
        self._stops_at_end = False
        self._started = 0

    def _take_over(self, control: Control) -> Control:
        with self._lock:
            control.restarts = self._started
            self._current = control
            self._started += 1
            paused, stopped, at_end = tuple(self._paused), self._stopped, self._stops_at_end
        self.run = control.run
        if paused:
            control.pause(*paused)
        if stopped:
            self._stop(control)
        elif at_end:
            control.stop_at_end()
        return control

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            current = self._current
        self._when_stopped()
        if current is None:
            self.is_shutdown.try_complete(None)
        else:
            self._stop(current)

    def _stop(self, control: Control) -> None:
        control.is_draining = self.is_draining
        control.stop()
        control.is_shutdown.add_done_callback(self._closed)

    def _closed(self, future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            self.is_shutdown.try_complete(None)
        else:
            self.is_shutdown.try_fail(error)

    def stop_at_end(self) -> None:
        with self._lock:
            self._stops_at_end = True
            current = self._current
        if current is not None:
            current.stop_at_end()

    def store(self, name: str) -> QueryableStore:
        if self._current is None:
            return super().store(name)
        return self._current.store(name)

    def pause(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            self._paused.update((TopicPartition(*partition), None) for partition in partitions)
            current = self._current
        if current is not None:
            current.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            for partition in partitions:
                self._paused.pop(TopicPartition(*partition), None)
            current = self._current
        if current is not None:
            current.resume(*partitions)

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        """Return the snapshot of the running instance, and the number of `restarts`; `timeout` in seconds, or as a timedelta or a string."""
        with self._lock:
            current, started = self._current, self._started
        found = _without_consumer() if current is None else current.snapshot(timeout)
        return {**found, "restarts": max(0, started - 1)}


def _without_consumer() -> dict[str, Any]:
    from streamactors.kafka.reading.snapshot import snapshot_without_consumer  # only for a control without a consumer

    return snapshot_without_consumer()


class ControlFollower:
    """Has a FollowingControl follow the runs of its stream."""

    def __init__(self, control: FollowingControl) -> None:
        self.value = control

    def follow(self, value: Control) -> None:
        """Another run is built."""
        self.value._take_over(value)

    def when_closed(self, then: Callable[[], object]) -> None:
        """Call `then` when the last run's consumer has left its group and closed."""
        assert self.value._current is not None
        self.value._current.is_shutdown.add_done_callback(lambda _: then())

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the last consumer, such as another member with its group.instance.id."""
        assert self.value._current is not None
        error = self.value._current.is_shutdown.exception(0)
        return error if isinstance(error, ConsumerFailed) else None

    def over(self) -> None:
        """The last run has ended by itself."""
        assert self.value._current is not None
        self.value._current.is_shutdown.add_done_callback(self.value._closed)

    def settle(self, error: BaseException | None) -> None:
        """No further run begins; the last consumer is closed or closing."""
        self.over()


class Completing(Protocol[T]):
    """The handle of a run with a future of its end."""

    @property
    def completion(self) -> StreamFuture[T]: ...


class DrainingControl(Control, Generic[T]):
    """A control together with the stream's completion: `to_mat(sink, DrainingControl.create)`."""

    def __init__(self, control: Control, completion: StreamFuture[T]) -> None:
        self._control = control
        self.stream_completion = completion
        self.is_shutdown = control.is_shutdown

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

    def stop(self) -> None:
        self._control.stop()

    def drain_and_shutdown(self, completion: Any = None, timeout: Duration | None = None) -> Any:
        """Stop, wait for the stream's result and the last commit; return the result, raise the stream's error.

        TimeoutError after `timeout` (seconds, a timedelta or a string; None: no limit) for all of it."""
        return self._control.drain_and_shutdown(self.stream_completion, timeout)

    def stop_at_end(self) -> None:
        self._control.stop_at_end()

    def pause(self, *partitions: tuple[str, int]) -> None:
        self._control.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._control.resume(*partitions)

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        return self._control.snapshot(timeout)


class NoopControl(Control):
    """A control without a source, for a variable that gets a real control later."""

    def __init__(self) -> None:
        super().__init__()
        self.is_shutdown.try_complete(None)

    def stop(self) -> None:
        """Do nothing."""

    def stop_at_end(self) -> None:
        """Do nothing."""

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Do nothing."""

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Do nothing."""


def _keys(partitions: Iterable[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    found = []
    for partition in partitions:
        if isinstance(partition, str) or len(partition) != 2:
            raise BuildError(
                f"pause and resume take partitions as (topic, number), got {partition!r}; as in pause(('flights', 0))"
            )
        found.append(TopicPartition(*partition))
    return tuple(found)
