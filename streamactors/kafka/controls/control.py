"""Control: stop or drain a running Kafka source, pause its partitions, and look at its state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.actors.waits import refuse_here
from streamactors.durations import Duration, duration_s
from streamactors.engine.island.run import Run
from streamactors.errors import BuildError, UnknownStore
from streamactors.kafka.controls.parts import Passed, settle
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.messages import PausePartitions, ResumePartitions, StopAtEnd, TakeSnapshot
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.living import Living

if TYPE_CHECKING:
    from streamactors.kafka.reading.assignment.rebalance_log import Rebalance
    from streamactors.windows.stage.queryable_store import QueryableStore

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
        self.started: StreamFuture[None] = StreamFuture("control.started")
        """Done when the consumer has its first partitions, maybe none, and knows its position in each: it reads every record that is written
        from now on. Fails if the consumer ends before."""
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
        self.is_shutdown.add_done_callback(self._ended)

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

    def drain(self, completion: StreamFuture[T] | None = None) -> StreamFuture[T | None]:
        """Stop, and return a future that is done after the last commit, with the stream's result: await it in a coroutine.

        `completion`: the future of the sink; a topology's graph needs none. The future fails with the stream's error, or else with the error
        of the last commit."""
        self.is_draining = True
        self.stop()
        result = completion or self.completion
        drained: StreamFuture[Any] = StreamFuture("control.drain()")
        if result is None:
            self.is_shutdown.add_done_callback(lambda ended: settle(drained, ended, None))
        else:
            result.add_done_callback(
                lambda done: self.is_shutdown.add_done_callback(lambda ended: settle(drained, ended, done))
            )
        return drained

    def drain_and_shutdown(
        self, completion: StreamFuture[T] | None = None, timeout: Duration | None = None
    ) -> T | None:
        """As `drain`, and wait for the result; a coroutine awaits `drain` instead.

        Raises the stream's error, or else the error of the last commit; TimeoutError after `timeout` (seconds, a timedelta or a
        string; None: no limit) for all of it. `close_timeout_ms` limits the last commit only, when the stream has ended. WouldBlock on a
        thread or an asyncio loop that the stream needs."""
        if not self.is_shutdown.done():
            refuse_here("drain_and_shutdown()", "await control.drain() instead")
        drained = self.drain(completion)
        try:
            return drained.result(timeout)
        except TimeoutError:
            result = completion or self.completion
            if result is not None and not drained.done() and result.done():
                result.result()  # the stream's own error is the one to raise
            raise

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
        source does not start within `timeout` (seconds, a timedelta or a string). A coroutine awaits `ask_snapshot`."""
        reply: StreamFuture[dict[str, Any]] = StreamFuture("snapshot")
        if self.is_shutdown.done():
            return self._last_snapshot or _snapshot_of_none()
        refuse_here("snapshot()", "await control.ask_snapshot() instead")
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
            reply.try_complete(self._last_snapshot or _snapshot_of_none())
        else:
            self._send(TakeSnapshot(reply))
        return reply

    def metrics(self) -> dict[str, Any]:
        """Return the counts of the snapshot."""
        return {name: value for name, value in self.snapshot().items() if name != "partitions"}

    def follower(self, stopped: Callable[[], object]) -> ControlFollower:
        """Return what stands for this control while its run is restarted; `stopped()` is called when the user stops it."""
        return ControlFollower(FollowingControl(stopped))

    def _ended(self, ended: Future[None]) -> None:
        """The consumer has closed: if it has not started by now, it never does."""
        if not self.started.done():
            error = ended.exception()
            self.started.try_fail(error or ConsumerFailed("the consumer has ended before it knew its positions"))

    def _send(self, message: Any) -> None:
        with self._lock:
            tell = self._tell
            if tell is None:
                self._early.append(message)
        if tell is not None:
            tell(message)


class FollowingControl(Control):
    """One control for a source that runs again and again: it passes everything on to the control of the last instance."""

    _stands_for: Control | None = None

    if not TYPE_CHECKING:
        graph, group, restarts, run, open_store, look, rebalances = (Passed() for _ in range(7))

    def __init__(self, stopped: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._when_stopped = stopped
        self._paused: dict[TopicPartition, None] = {}
        self._stopped = False
        self._stops_at_end = False
        self._started = 0

    def _take_over(self, control: Control) -> Control:
        with self._lock:
            control.restarts = self._started
            self._stands_for = control
            self._started += 1
            paused, stopped, at_end = tuple(self._paused), self._stopped, self._stops_at_end
        control.started.add_done_callback(self._has_started)
        if paused:
            control.pause(*paused)
        if stopped:
            self._stop(control)
        elif at_end:
            control.stop_at_end()
        return control

    def _has_started(self, started: Future[None]) -> None:
        if started.exception() is None:  # else the next instance may start
            self.started.try_complete(None)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            current = self._stands_for
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
            current = self._stands_for
        if current is not None:
            current.stop_at_end()

    def store(self, name: str) -> QueryableStore:
        if self._stands_for is None:
            return super().store(name)
        return self._stands_for.store(name)

    def pause(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            self._paused.update((TopicPartition(*partition), None) for partition in partitions)
            current = self._stands_for
        if current is not None:
            current.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        with self._lock:
            for partition in partitions:
                self._paused.pop(TopicPartition(*partition), None)
            current = self._stands_for
        if current is not None:
            current.resume(*partitions)

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        """Return the snapshot of the running instance, and the number of `restarts`; `timeout` in seconds, or as a timedelta or a string."""
        with self._lock:
            current, started = self._stands_for, self._started
        found = _snapshot_of_none() if current is None else current.snapshot(timeout)
        return {**found, "restarts": max(0, started - 1)}

    def ask_snapshot(self) -> StreamFuture[dict[str, Any]]:
        """Ask the running instance for its snapshot, and return the future of it; it has the number of `restarts`, too."""
        with self._lock:
            current, restarts = self._stands_for, max(0, self._started - 1)
        reply: StreamFuture[dict[str, Any]] = StreamFuture("snapshot")
        if current is None:
            reply.try_complete({**_snapshot_of_none(), "restarts": restarts})
            return reply

        def answered(found: Future[dict[str, Any]]) -> None:
            error = found.exception()
            if error is None:
                reply.try_complete({**found.result(), "restarts": restarts})
            else:
                reply.try_fail(error)

        current.ask_snapshot().add_done_callback(answered)
        return reply


class ControlFollower:
    """Has a FollowingControl follow the runs of its stream."""

    def __init__(self, control: FollowingControl) -> None:
        self.value = control

    def follow(self, value: Control) -> None:
        """Another run is built."""
        self.value._take_over(value)

    def when_closed(self, then: Callable[[], object]) -> None:
        """Call `then` when the last run's consumer has left its group and closed."""
        assert self.value._stands_for is not None
        self.value._stands_for.is_shutdown.add_done_callback(lambda _: then())

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the last consumer, such as another member with its group.instance.id."""
        assert self.value._stands_for is not None
        error = self.value._stands_for.is_shutdown.exception(0)
        return error if isinstance(error, ConsumerFailed) else None

    def over(self) -> None:
        """The last run has ended by itself."""
        assert self.value._stands_for is not None
        self.value._stands_for.is_shutdown.add_done_callback(self.value._closed)

    def settle(self, error: BaseException | None) -> None:
        """No further run begins; the last consumer is closed or closing."""
        self.over()


def _snapshot_of_none() -> dict[str, Any]:
    """Return the snapshot of a control that has no consumer."""

    from streamactors.kafka.reading.snapshot import snapshot_without_consumer  # only for a control without a consumer

    return snapshot_without_consumer()


class NoopControl(Control):
    """A control without a source, for a variable that gets a real control later."""

    def __init__(self) -> None:
        super().__init__()
        self.started.try_complete(None)
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
