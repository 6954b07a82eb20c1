"""How a consumer commits: what is done, in one request for all who wait for it, tried again while the coordinator cannot.

Owner: the consumer actor. Every call comes from its thread or, when the actor has exited, from the thread that finds it gone."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.errors import CommitFailed, CommitTimeout
from streamactors.kafka.reading.messages import CommitNow, CommitReply, Commits
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.reading.shared import Shared
from streamactors.kafka.subscriptions import TopicPartition

COMMIT_RETRY_MS = 100.0


class CommitDue:
    """Message to the actor itself: the commit interval has passed."""


class CommitAnswer:
    """Message to the actor itself: serve the CommitNow that have gathered."""


_COMMIT_DUE, _ANSWER = CommitDue(), CommitAnswer()


class ConsumerCommits:
    """See the module."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._replies: list[StreamFuture[None]] = []
        self._refused_since: float | None = None
        self._timer: Any = None
        self.committed: dict[TopicPartition, int] = {}
        """What this consumer has committed by now, partitions that it lost included."""

    # ── when ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Commit what is done every commit interval from now on, where the consumer commits by itself."""
        if self._shared.commits is Commits.MARKS:
            self._arm()

    def _arm(self) -> None:
        shared = self._shared
        self._timer = shared.call_later(shared.settings.commit_interval_ms, lambda: shared.tell(_COMMIT_DUE))

    def cancel(self) -> None:
        """Commit no more by the interval."""
        if self._timer is not None:
            self._timer.cancel()

    def on_due(self, _: CommitDue) -> None:
        shared = self._shared
        if shared.tracker is not None and not shared.stopping:
            self.commit(shared.tracker.to_commit())
            self._arm()

    def on_commit_now(self, message: CommitNow) -> None:
        self._replies.append(message.reply)
        if len(self._replies) == 1:
            self._shared.tell(_ANSWER)  # behind what is in the mailbox by now: that is served with it

    def on_answer(self, _: CommitAnswer) -> None:
        """Commit for all who wait."""
        tracker = self._shared.tracker
        if not self._replies or tracker is None:
            return
        try:
            committed = self.commit(tracker.to_commit())
        except (CommitFailed, CommitTimeout) as error:
            self.answer(error)
            return
        if committed:
            self.answer(None)
        else:
            self._give_up(tracker)
        if self._replies:
            self._shared.call_later(COMMIT_RETRY_MS, lambda: self._shared.tell(_ANSWER))

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, offsets: dict[TopicPartition, int]) -> bool:
        """Commit; return True when the broker has the offsets. Raises CommitTimeout when it has refused for too long."""
        shared = self._shared
        settings, client, tracker = shared.settings, shared.client, shared.tracker
        if not offsets or client is None or tracker is None or settings.group_id is None:
            self._refused_since = None  # what could not be committed was revoked
            return True
        if shared.commits is Commits.TRANSACTION or client.commit(offsets, tracker.texts_of(offsets)):
            tracker.committed(offsets)
            self.committed.update(offsets)
            self._refused_since = None
            return True
        now = shared.now_ms()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since > settings.commit_timeout_ms:
            self._refused_since = None
            epochs = {key: progress.epoch for key, progress in tracker.snapshot().items()}
            named = ", ".join(f"{key}@{offset} (epoch {epochs.get(key)})" for key, offset in list(offsets.items())[:5])
            raise CommitTimeout(
                f"group {settings.group_id}: {named} not committed in {settings.commit_timeout_ms} ms; "
                "raise commit_timeout_ms or look at the coordinator"
            )
        return False

    def _give_up(self, tracker: OffsetTracker) -> None:
        """A commit was refused for now: fail the replies that have no try left."""
        named = ", ".join(f"{key}@{offset}" for key, offset in list(tracker.to_commit().items())[:5])
        left = []
        for reply in self._replies:
            if isinstance(reply, CommitReply):
                reply.tries += 1
                if reply.max_retries is not None and reply.tries > reply.max_retries:
                    reply.try_fail(
                        CommitTimeout(
                            f"group {self._shared.settings.group_id}: {named} not committed in {reply.tries} tries; raise max_retries or "
                            "look at the coordinator"
                        )
                    )
                    continue
            left.append(reply)
        self._replies = left

    def answer(self, error: BaseException | None) -> None:
        """End all replies: the broker has the offsets, or `error` says why not."""
        replies, self._replies = self._replies, []
        for reply in replies:
            if error is None:
                reply.try_complete(None)
            else:
                reply.try_fail(error)

    def refuse(self, reply: StreamFuture[None]) -> None:
        """Answer a request that comes when the consumer is closed: it fails if something is left to commit."""
        self._replies.append(reply)
        tracker = self._shared.tracker
        left = tracker.to_commit() if tracker is not None else {}
        named = ", ".join(f"{key}@{offset}" for key, offset in left.items())
        self.answer(CommitFailed(f"{named} not committed: the consumer is closed") if left else None)
