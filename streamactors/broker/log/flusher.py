"""Group commit: one fdatasync covers everything that was appended during the previous fdatasync.

Owner: each log has one Flusher. The threads belong to a shared pool, which grows while flushes wait and is empty when idle.
Several threads matter: a disk merges the commits of logs that sync at the same time. No answer leaves before the sync that
covers its record: `done` is called after the sync, for all covered appends at once.

A writer that gets its answer usually writes again. If the next sync began at once, the writers would split into two groups,
each waiting for the sync of the other group and then for its own. So the next sync waits until as many writers are back as
there were at the end of the last sync (like commit_delay and commit_siblings of PostgreSQL). It waits only if the writers
came back within half of the duration of a sync. On a disk faster than that, two groups are better: one syncs while the
other appends. A single writer never waits.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode, StorageShortage
from streamactors.broker.log import logger
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.log_flush import LogFlush

Done = Callable[[ErrorCode], None]
Flushed = tuple[Done, ErrorCode]
Deliver = Callable[[list[Flushed]], None]

IDLE_SECONDS: Final = 2.0
GATHERING: Final = 0.5
SMOOTHING: Final = 0.25
LONGEST_GATHERING_SECONDS: Final = 0.005
MAX_THREADS: Final = 32


def deliver_here(outcomes: list[Flushed]) -> None:
    """Call every `done` on the flusher's thread."""
    for done, code in outcomes:
        done(code)


class _Waiting(NamedTuple):
    result: AppendResult
    done: Done


class FlushPool:
    """Threads that carry out flushes; each ends after two idle seconds."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        deliver: Deliver = deliver_here,
        max_threads: int = MAX_THREADS,
        *,
        gathering: float = GATHERING,
    ) -> None:
        self.clock_ms = clock_ms
        """Epoch milliseconds, for the truncation after a failed flush."""
        self.deliver = deliver
        self.gathering = gathering
        """The longest wait for returning writers, as a fraction of the duration of a sync. Writers that took longer the last
        time are not waited for."""
        self._max_threads = max_threads
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run the job soon on one of the threads. After `close`, run it on the caller's thread."""
        with self._changed:
            closed = self._closed
            if not closed:
                self._jobs.append(job)
                if self._idle >= len(self._jobs):
                    self._changed.notify()
                elif len(self._threads) < self._max_threads:
                    thread = threading.Thread(target=self._work, name="streamactors-flusher", daemon=True)
                    self._threads.add(thread)
                    thread.start()
        if closed:
            job()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._idle += 1
                    self._changed.wait_for(lambda: self._jobs or self._closed, IDLE_SECONDS)
                    self._idle -= 1
                    if not self._jobs:
                        self._threads.discard(threading.current_thread())
                        return
                job = self._jobs.popleft()
            try:
                job()
            except Exception:  # noqa: BLE001 - the thread also serves other logs
                logger.exception("a flush failed with an error that is not a disk error; this is a bug")

    def close(self) -> None:
        """Finish the submitted jobs, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    @property
    def thread_count(self) -> int:
        """Current number of threads."""
        with self._changed:
            return len(self._threads)


class Flusher:
    """The flushes of one log. At most one runs; the next covers everything appended meanwhile."""

    def __init__(self, log: LogCore, flush: LogFlush, pool: FlushPool) -> None:
        self._log = log
        self._flush = flush
        self._pool = pool
        self._waiting: deque[_Waiting] = deque()  # guarded by the log's lock
        self._scheduled = False
        self._wanted = False
        self._enough_came = threading.Condition(log.lock)
        self._expected = 0  # number of writers at the end of the last sync
        self._expected_until = 0.0  # when to stop waiting for them
        self._away = 0  # answered writers that have not written again
        self._answered_at = 0.0  # when they were answered
        self._sync_seconds = 0.0  # smoothed duration of a sync
        self._return_seconds = 0.0  # smoothed time until all writers were back

    def request(self, result: AppendResult, done: Done) -> None:
        """Call done(NONE) once the append is on the disk, or done(error) if a failed flush removed it.

        The error is KAFKA_STORAGE_ERROR, or OUT_OF_ORDER_SEQUENCE_NUMBER for the later batches of an idempotent producer
        whose first batch was removed. If a flush already covered the append, `done` is called before this returns;
        otherwise by the pool, together with all other appends that the same sync covers.
        """
        with self._log.lock:
            code = self._settled(result)
            if code is None:
                self._waiting.append(_Waiting(result, done))
                self._away -= 1
                if self._away == 0:
                    self._note_return(time.monotonic())
                if len(self._waiting) == self._expected:
                    self._enough_came.notify()
                self._schedule()
        if code is not None:
            done(code)

    def request_soon(self) -> None:
        """Flush everything appended so far as soon as a thread is free. No answer depends on it."""
        with self._log.lock:
            self._wanted = True
            self._schedule()

    def finish(self) -> None:
        """Answer the appends that are on the disk already, without another flush."""
        with self._log.lock:
            outcomes = self._finish_waiting()
        if outcomes:
            self._pool.deliver(outcomes)

    def _settled(self, result: AppendResult) -> ErrorCode | None:
        if result.generation != self._log.generation:
            return ErrorCode.KAFKA_STORAGE_ERROR  # A truncation followed: the offsets may now belong to other records.
        return ErrorCode.NONE if result.next_offset <= self._log.recovery_point else None

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._pool.submit(self._run)

    def _run(self) -> None:
        more = True
        while more:
            with self._log.lock:
                self._gather()
            ticket = self._flush.begin()
            begun = time.monotonic()
            try:
                self._flush.carry_out(ticket)
                failure = None
            except OSError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - the waiting requests must get an answer
                logger.exception("%s: a flush failed with an error that is not a disk error", self._log.name)
                failure = OSError(errno.EIO, str(error))
            with self._log.lock:
                if failure is None:
                    self._flush.end(ticket)
                    outcomes = self._finish_waiting()
                    self._expect(len(outcomes), begun)
                else:
                    why = self._flush.fail(ticket, failure, self._pool.clock_ms())
                    outcomes = self._fail_waiting(are_kept=isinstance(why, StorageShortage))
                    self._expected = self._away = 0
                    self._wanted = False
                self._scheduled = more = bool(self._waiting) or self._wanted
                self._wanted = False
            if outcomes:
                try:
                    self._pool.deliver(outcomes)
                except Exception:  # noqa: BLE001 - the next flush must run
                    logger.exception("%s: the outcome of a flush could not be delivered", self._log.name)

    def _gather(self) -> None:
        """Wait for the answered writers to write again. The caller holds the log's lock, which is free during the wait."""
        while len(self._waiting) < self._expected:
            left = self._expected_until - time.monotonic()
            if left <= 0:
                return
            self._enough_came.wait(left)

    def _expect(self, answered: int, begun: float) -> None:
        """Update the estimates after a sync that began at `begun` and answered this many appends."""
        ended = time.monotonic()
        self._sync_seconds = _smoothed(self._sync_seconds, ended - begun)
        if self._away > 0:
            self._note_return(ended)  # They have been away at least this long.
        self._away, self._answered_at = answered, ended
        self._expected = answered + len(self._waiting)
        in_time = self._sync_seconds * self._pool.gathering
        worth_it = self._return_seconds < in_time
        self._expected_until = ended + min(in_time, LONGEST_GATHERING_SECONDS) if worth_it else 0.0

    def _note_return(self, now: float) -> None:
        took = min(
            now - self._answered_at, 2 * self._sync_seconds
        )  # Anything longer is a pause of the writers and says little.
        self._return_seconds = _smoothed(self._return_seconds, took)

    def _finish_waiting(self) -> list[Flushed]:
        """Remove and return the settled appends."""
        outcomes: list[Flushed] = []
        still: deque[_Waiting] = deque()
        for waiting in self._waiting:
            code = self._settled(waiting.result)
            if code is None:
                still.append(waiting)
            else:
                outcomes.append((waiting.done, code))
        self._waiting = still
        return outcomes

    def _fail_waiting(self, *, are_kept: bool) -> list[Flushed]:
        """Remove and return all waiting appends. The failed flush removed their records, unless they `are_kept` for the next one."""
        outcomes: list[Flushed] = []
        failed: set[int] = set()
        for waiting in self._waiting:
            producer_id = waiting.result.producer_id
            if producer_id >= 0 and producer_id in failed and not are_kept:
                outcomes.append((waiting.done, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
            else:
                failed.add(producer_id)
                outcomes.append((waiting.done, ErrorCode.KAFKA_STORAGE_ERROR))
        self._waiting.clear()
        return outcomes


def _smoothed(before: float, now: float) -> float:
    return before + SMOOTHING * (now - before) if before else now
