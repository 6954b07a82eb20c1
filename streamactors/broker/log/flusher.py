"""Group commit: one fdatasync for everything that was appended while the last one ran.

Owner: each log has one Flusher; the threads belong to a pool that is shared, grows while flushes wait and is empty when
idle. A disk that is synced by several logs at once merges the commits, which one thread for all would prevent. An answer
never leaves before the sync that covers its record: `done` is called after it, for all that it covered at once.

Whoever was answered by one sync probably writes again. Were the next sync to begin with those who came meanwhile, the
writers would fall into two groups, each waiting for the other's sync and then for its own. So the next sync waits until
as many have come as were there when the last one ended (the group commit of databases: PostgreSQL's commit_delay and
commit_siblings), but only where that pays: where those answered came back within half of what a sync takes. On a disk
that is quicker than they are, two groups are the better way: one is on the disk while the other comes. A single writer
is never waited for.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.log_append import AppendResult
from streamactors.broker.log.log_core import logger
from streamactors.broker.log.log_flush import LogFlush

Done = Callable[[ErrorCode], None]
Outcome = tuple[Done, ErrorCode]
Deliver = Callable[[list[Outcome]], None]

IDLE_SECONDS: Final = 2.0
GATHERING: Final = 0.5
SMOOTHING: Final = 0.25
LONGEST_GATHERING_SECONDS: Final = 0.005
MAX_THREADS: Final = 32


def deliver_here(outcomes: list[Outcome]) -> None:
    """Call every `done` on the flusher's thread."""
    for done, code in outcomes:
        done(code)


class _Waiting(NamedTuple):
    result: AppendResult
    done: Done


class FlushPool:
    """Threads that carry out flushes; each ends after two idle seconds."""

    def __init__(
        self, deliver: Deliver = deliver_here, max_threads: int = MAX_THREADS, *, gathering: float = GATHERING
    ) -> None:
        self.deliver = deliver
        self.gathering = gathering
        """How long a sync waits at most for those whom the last one answered, as a fraction of what a sync takes; it does
        not wait where they took longer."""
        self._max_threads = max_threads
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run the job soon, on one of the threads. After `close`, run it here."""
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
            except Exception:  # noqa: BLE001 - the thread serves other logs too
                logger.exception("a flush ended with an error that is not the disk's; this is a bug")

    def close(self) -> None:
        """Finish what was submitted, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    @property
    def thread_count(self) -> int:
        """Threads that exist just now."""
        with self._changed:
            return len(self._threads)


class Flusher:
    """The flushes of one log: at most one runs, and the next takes everything that came meanwhile."""

    def __init__(self, log: LogFlush, pool: FlushPool) -> None:
        self._log = log
        self._pool = pool
        self._waiting: deque[_Waiting] = deque()  # guarded by the log's lock
        self._scheduled = False
        self._wanted = False
        self._enough_came = threading.Condition(log.lock)
        self._expected = 0  # so many waited when the last sync ended,
        self._expected_until = 0.0  # and until then those who were answered may be back
        self._away = 0  # so many of those who were answered
        self._answered_at = 0.0  # then have not come back yet
        self._sync_seconds = 0.0  # smoothed, as is
        self._return_seconds = 0.0  # the time until all were back

    def request(self, result: AppendResult, done: Done) -> None:
        """Call done(NONE) once the append is on the disk, or done(error) if it was taken back because that failed.

        The error is KAFKA_STORAGE_ERROR, but OUT_OF_ORDER_SEQUENCE_NUMBER for the later batches of an idempotent
        producer whose first was lost. If a flush has covered the append already, done is called before this returns; else
        from the pool, together with all others that the same sync covered.
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
        """Flush what is appended so far when a thread has time; nobody waits for it."""
        with self._log.lock:
            self._wanted = True
            self._schedule()

    def _settled(self, result: AppendResult) -> ErrorCode | None:
        if result.generation != self._log.generation:
            return ErrorCode.KAFKA_STORAGE_ERROR  # cut back since: these offsets may be other records by now
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
            ticket = self._log.begin_flush()
            begun = time.monotonic()
            try:
                self._log.carry_out(ticket)
                failure = None
            except OSError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                logger.exception("%s: a flush ended with an error that is not the disk's", self._log.name)
                failure = OSError(errno.EIO, str(error))
            with self._log.lock:
                if failure is None:
                    self._log.end_flush(ticket)
                    outcomes = self._finish_waiting()
                    self._expect(len(outcomes), begun)
                else:
                    self._log.fail_flush(ticket, failure)
                    outcomes = self._fail_waiting()
                    self._expected = self._away = 0
                    self._wanted = False
                self._scheduled = more = bool(self._waiting) or self._wanted
                self._wanted = False
            if outcomes:
                try:
                    self._pool.deliver(outcomes)
                except Exception:  # noqa: BLE001 - the next flush must go on
                    logger.exception("%s: an answer to a flush could not be delivered", self._log.name)

    def _gather(self) -> None:
        """Wait for those who were answered just now to write again. The log's lock is held, but for the waiting."""
        while len(self._waiting) < self._expected:
            left = self._expected_until - time.monotonic()
            if left <= 0:
                return
            self._enough_came.wait(left)

    def _expect(self, answered: int, begun: float) -> None:
        """So many were answered by a sync that began then and has just ended."""
        ended = time.monotonic()
        self._sync_seconds = _smoothed(self._sync_seconds, ended - begun)
        if self._away > 0:
            self._note_return(ended)  # they have taken that long already
        self._away, self._answered_at = answered, ended
        self._expected = answered + len(self._waiting)
        in_time = self._sync_seconds * self._pool.gathering
        worth_it = self._return_seconds < in_time
        self._expected_until = ended + min(in_time, LONGEST_GATHERING_SECONDS) if worth_it else 0.0

    def _note_return(self, now: float) -> None:
        took = min(now - self._answered_at, 2 * self._sync_seconds)  # more is a pause, not to be remembered for long
        self._return_seconds = _smoothed(self._return_seconds, took)

    def _finish_waiting(self) -> list[Outcome]:
        """Take out those that are settled now."""
        outcomes: list[Outcome] = []
        still: deque[_Waiting] = deque()
        for waiting in self._waiting:
            code = self._settled(waiting.result)
            if code is None:
                still.append(waiting)
            else:
                outcomes.append((waiting.done, code))
        self._waiting = still
        return outcomes

    def _fail_waiting(self) -> list[Outcome]:
        """Take out all: what was appended before the failure is gone."""
        outcomes: list[Outcome] = []
        failed: set[int] = set()
        for waiting in self._waiting:
            producer_id = waiting.result.producer_id
            if producer_id >= 0 and producer_id in failed:
                outcomes.append((waiting.done, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
            else:
                failed.add(producer_id)
                outcomes.append((waiting.done, ErrorCode.KAFKA_STORAGE_ERROR))
        self._waiting.clear()
        return outcomes


def _smoothed(before: float, now: float) -> float:
    return before + SMOOTHING * (now - before) if before else now
