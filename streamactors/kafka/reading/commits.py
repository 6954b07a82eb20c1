"""How a consumer commits the positions that are done: one request serves all waiting callers, and is repeated while the coordinator is unavailable.

    to commit ──► in flight ──► heard of in a poll: committed, or refused: again after COMMIT_RETRY_MS, or failed

The actor serves its messages while a commit is in flight. One commit is in flight at a time, beside those of a rebalance.
Owner: the consumer actor. Every call comes from its thread or, when the actor has exited, from the thread that finds it gone. What a poll hears
while the client is being closed comes from the thread that closes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.errors import CommitFailed, CommitTimeout
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.messages import CommitNow, CommitReply, Commits
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition

COMMIT_RETRY_MS = 100.0
ANSWER_MS = 1.0
"""How soon the consumer polls for the answer to a commit; later polls wait as long as the commit has taken by then."""

Offsets: TypeAlias = dict[TopicPartition, int]
Outcome: TypeAlias = "bool | BaseException"
"""True: the broker has the offsets. False: it has refused them for now. An error: it has refused them for good, or for too long."""


class CommitDue:
    """Message to the actor itself: the commit interval has passed."""


class CommitAnswer:
    """Message to the actor itself: serve the CommitNow that have gathered."""


class CommitsLate:
    """Message to the actor itself: the time limit of a commit in flight has passed."""


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """Message to the actor itself: the commit in flight has an outcome."""

    offsets: Offsets
    outcome: Outcome
    then: Callable[[Outcome], None] | None


@dataclass(slots=True)
class _Waiting:
    """A caller that waits for a commit, until a time of `now_ms`."""

    reply: StreamFuture[None]
    until_ms: float


_COMMIT_DUE, _ANSWER, _LATE = CommitDue(), CommitAnswer(), CommitsLate()


class ConsumerCommits:
    """Commits what is done, at intervals and before partitions are given up."""

    def __init__(self, context: ConsumerContext) -> None:
        self._context = context
        self._waiting: list[_Waiting] = []  # for the next commit
        self._served: list[_Waiting] = []  # by the commit in flight
        self._refused_since: float | None = None
        self._timer: Any = None
        self.in_flight = False
        """True while a commit waits for the broker."""
        self.since_ms = 0.0
        """When the commit in flight began."""
        self.begun: Callable[[], None] = lambda: None
        """Called when a commit is in flight: a poll brings its answer."""
        self.committed: Offsets = {}
        """The positions that this consumer has committed so far, including those of lost partitions."""
        self.lost: Offsets = {}
        """Positions that were done and not committed when the group removed this member; empty once it is a member again."""

    # ── when ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Commit what is done every commit interval from now on, where the consumer commits by itself."""
        if self._context.commits is Commits.MARKS:
            self._arm()

    def _arm(self) -> None:
        context = self._context
        self._timer = context.call_later(context.settings.commit_interval_ms, lambda: context.tell(_COMMIT_DUE))

    def cancel(self) -> None:
        """Commit no more by the interval."""
        if self._timer is not None:
            self._timer.cancel()

    def on_due(self, _: CommitDue) -> None:
        context = self._context
        if context.tracker is not None and not context.stopping:
            if not self.in_flight:
                self.commit(context.tracker.to_commit(), None)
            self._arm()

    def on_commit_now(self, message: CommitNow) -> None:
        context = self._context
        self._waiting.append(_Waiting(message.reply, context.now_ms() + context.settings.commit_timeout_ms))
        if len(self._waiting) == 1:
            context.tell(_ANSWER)  # after what is in the mailbox by now: that is served with it

    def on_answer(self, _: CommitAnswer) -> None:
        """Commit for all who wait."""
        tracker = self._context.tracker
        if not self._waiting or tracker is None:
            return
        if not self.in_flight:
            self._served, self._waiting = self._waiting, []
            self.commit(tracker.to_commit(), self._on_answered)
        if self.in_flight:
            self._look_for_late_ones()

    def _on_answered(self, outcome: Outcome) -> None:
        """The commit that callers wait for has an outcome."""
        if outcome is False:
            self._waiting[:0], self._served = self._served, []
            self._give_up()
            if self._waiting:
                self._context.call_later(COMMIT_RETRY_MS, lambda: self._context.tell(_ANSWER))
            return
        served, self._served = self._served, []
        _end(served, None if outcome is True else outcome)

    def _look_for_late_ones(self) -> None:
        context = self._context
        due_ms = min(waiting.until_ms for waiting in (*self._served, *self._waiting))
        context.call_later(max(0.0, due_ms - context.now_ms()), lambda: context.tell(_LATE))

    def on_late(self, _: CommitsLate) -> None:
        """Fail the callers that have waited too long while a commit is in flight."""
        if not self.in_flight or self._context.tracker is None:
            return
        now = self._context.now_ms()
        late = [waiting for waiting in (*self._served, *self._waiting) if waiting.until_ms <= now]
        self._served = [waiting for waiting in self._served if waiting.until_ms > now]
        self._waiting = [waiting for waiting in self._waiting if waiting.until_ms > now]
        if late:
            _end(late, self._timed_out(self._context.tracker.to_commit()))
        if self._served or self._waiting:
            self._look_for_late_ones()

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, offsets: Offsets, then: Callable[[Outcome], None] | None) -> None:
        """Begin to commit; no other commit is in flight. `then` hears of the outcome; without it an error fails the consumer."""
        context, served = self._context, self._served
        if not self._asks(offsets):
            self._refused_since = None  # what could not be committed was revoked
            if then is not None:
                then(self.loss() or True)
            return

        def heard(outcome: Outcome) -> None:
            if outcome is True:
                _end(served, None)  # at once: the actor may be waiting for records
            context.tell(CommitEnded(offsets, outcome, then))

        self.in_flight, self.since_ms = True, context.now_ms()
        self._request(offsets, heard)
        self.begun()

    def poll_after_ms(self) -> float:
        """Return how soon to poll for the answer to the commit in flight: a healthy broker needs a ms or two, one that is away many seconds."""
        age_ms = self._context.now_ms() - self.since_ms
        return min(max(ANSWER_MS, age_ms), self._context.settings.poll_interval_ms)

    def on_ended(self, message: CommitEnded) -> None:
        """The commit in flight has an outcome."""
        self.in_flight = False
        outcome = message.outcome
        if outcome is False:
            outcome = self._refused(message.offsets) or False
        else:
            self._refused_since = None
        if message.then is not None:
            message.then(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        if outcome is not False:
            self.on_answer(_ANSWER)

    def commit_in_rebalance(self, keys: list[TopicPartition]) -> None:
        """Commit what is done of partitions that are taken away. The broker has it before the group gives them to another member."""
        tracker = self._context.tracker
        offsets = {} if tracker is None else tracker.to_commit(keys)
        if self._asks(offsets):
            self._request(offsets, self._heard_after_rebalance)

    def _heard_after_rebalance(self, outcome: Outcome) -> None:
        if isinstance(outcome, BaseException):
            self._context.tell(CommitEnded({}, outcome, None))

    def commit_at_exit(self, poll: Callable[[], object], limit_ms: float) -> BaseException | None:
        """Commit, and poll until the broker has answered or the time is over; return the error."""
        context = self._context
        offsets = {} if context.tracker is None else context.tracker.to_commit()
        if not self._asks(offsets):
            return None
        outcomes: list[Outcome] = []
        until = time.monotonic() + limit_ms / 1_000
        self._request(offsets, outcomes.append)
        while not outcomes and time.monotonic() < until:
            poll()
        if not outcomes or outcomes[0] is False:
            return self._timed_out(offsets, limit_ms)
        return outcomes[0] if isinstance(outcomes[0], BaseException) else None

    def _asks(self, offsets: Offsets) -> bool:
        """Return whether the broker must be asked to commit. A transaction has committed by itself."""
        context = self._context
        if not offsets or context.client is None or context.tracker is None or context.settings.group_id is None:
            return False
        if context.commits is Commits.TRANSACTION:
            self._note(context.tracker, offsets)
            return False
        return True

    def _request(self, offsets: Offsets, heard: Callable[[Outcome], None]) -> None:
        """Send a request to commit; `heard` hears of the outcome inside a poll."""
        client, tracker = self._context.client, self._context.tracker
        assert client is not None
        assert tracker is not None

        began_ns = 0 if tracker.settles is None else time.time_ns()

        def noted(outcome: Outcome) -> None:
            if outcome is True:
                self._note(tracker, offsets)
            if tracker.settles is not None and outcome is not False:
                tracker.settles.answered(offsets, began_ns, outcome if isinstance(outcome, BaseException) else None)
            heard(outcome)

        client.commit(offsets, tracker.texts_of(offsets), noted)

    def _note(self, tracker: OffsetTracker, offsets: Offsets) -> None:
        tracker.committed(offsets)
        self.committed.update(offsets)

    def _refused(self, offsets: Offsets) -> CommitTimeout | None:
        """The broker has refused a commit for now; return the error if it has done so for too long."""
        now = self._context.now_ms()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since > self._context.settings.commit_timeout_ms:
            self._refused_since = None
            return self._timed_out(offsets)
        return None

    def _timed_out(self, offsets: Offsets, limit_ms: float | None = None) -> CommitTimeout:
        tracker, settings = self._context.tracker, self._context.settings
        epochs = {} if tracker is None else {key: progress.epoch for key, progress in tracker.snapshot().items()}
        named = ", ".join(f"{key}@{offset} (epoch {epochs.get(key)})" for key, offset in list(offsets.items())[:5])
        return CommitTimeout(
            f"group {settings.group_id}: {named} not committed in {settings.commit_timeout_ms if limit_ms is None else limit_ms:g} ms; "
            "raise commit_timeout_ms or look at the coordinator"
        )

    # ── what fails ────────────────────────────────────────────────────────────────────────────────────────────────

    def note_lost(self, keys: list[TopicPartition]) -> None:
        """The group has removed this member: processed records of these partitions can no longer be committed."""
        if self._context.tracker is not None and self._context.commits is not Commits.TRANSACTION:
            self.lost.update(self._context.tracker.to_commit(keys))

    def loss(self) -> CommitFailed | None:
        """Return the error of an ending consumer that has nothing to commit because its partitions were lost; None if they were not.

        A stream that continues gets its partitions back, or another member has them; either reads the records again."""
        if not self.lost or not self._context.stopping:
            return None
        named = ", ".join(f"{key}@{offset}" for key, offset in list(self.lost.items())[:5])
        return CommitFailed(
            f"group {self._context.settings.group_id}: {named} not committed: the broker was not reached for session.timeout.ms, or the consumer "
            "did not poll for max.poll.interval.ms, and the partitions were lost; their next owner processes the records again"
        )

    def _give_up(self) -> None:
        """A commit was refused for now: fail the waiting callers that have no retry left."""
        tracker = self._context.tracker
        offsets = {} if tracker is None else tracker.to_commit()
        named = ", ".join(f"{key}@{offset}" for key, offset in list(offsets.items())[:5])
        left = []
        for waiting in self._waiting:
            reply = waiting.reply
            if isinstance(reply, CommitReply):
                reply.tries += 1
                if reply.max_retries is not None and reply.tries > reply.max_retries:
                    reply.try_fail(
                        CommitTimeout(
                            f"group {self._context.settings.group_id}: {named} not committed in {reply.tries} tries; raise max_retries or "
                            "look at the coordinator"
                        )
                    )
                    continue
            left.append(waiting)
        self._waiting = left

    def answer(self, error: BaseException | None) -> None:
        """Answer all waiting callers: the broker has the offsets, or `error` says why not."""
        ended = [*self._served, *self._waiting]
        self._served, self._waiting = [], []
        _end(ended, error)

    def refuse(self, reply: StreamFuture[None]) -> None:
        """Answer a request that comes when the consumer is closed: it fails if something is left to commit."""
        tracker = self._context.tracker
        left = tracker.to_commit() if tracker is not None else {}
        named = ", ".join(f"{key}@{offset}" for key, offset in left.items())
        error = CommitFailed(f"{named} not committed: the consumer is closed") if left else self.loss()
        _end([_Waiting(reply, 0.0)], error)


def _end(ended: list[_Waiting], error: BaseException | None) -> None:
    for waiting in ended:
        if error is None:
            waiting.reply.try_complete(None)
        else:
            waiting.reply.try_fail(error)
