"""How a consumer commits: what is done, in one request for all who wait for it, tried again while the coordinator cannot.

Owner: the consumer actor; every call from its thread, or, when it has exited, from the one that finds it gone."""

from __future__ import annotations

import math
from collections.abc import Callable

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.commit_reply import CommitReply
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.errors import CommitFailed, CommitTimeout
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition


class ConsumerCommits:
    """See the module. `client` is None where the consumer is closed or not open yet."""

    def __init__(
        self,
        settings: ConsumerSettings,
        commits: Commits,
        tracker: OffsetTracker | None,
        now_ms: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._commits = commits
        self._tracker = tracker
        self._now_ms = now_ms
        self._replies: list[StreamFuture[None]] = []
        self._tries = 0
        self._refused_since: float | None = None

    def commit(self, client: StreamConsumer | None, offsets: dict[TopicPartition, int]) -> bool:
        """Commit; True when the broker has them. Raises CommitTimeout when it has refused for too long."""
        if not offsets or client is None or self._tracker is None or self._settings.group_id is None:
            self._refused_since = None  # what could not be committed has been taken away
            return True
        if self._commits is Commits.TRANSACTION or client.commit(offsets):
            self._tracker.committed(offsets)
            self._refused_since = None
            return True
        now = self._now_ms()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since > self._settings.commit_timeout_ms:
            self._refused_since = None
            epochs = {key: progress.epoch for key, progress in self._tracker.snapshot().items()}
            named = ", ".join(f"{key}@{offset} (epoch {epochs.get(key)})" for key, offset in list(offsets.items())[:5])
            raise CommitTimeout(
                f"group {self._settings.group_id}: {named} not committed in {self._settings.commit_timeout_ms} ms; "
                "raise commit_timeout_ms or look at the coordinator"
            )
        return False

    def add(self, reply: StreamFuture[None]) -> bool:
        """Somebody waits for a commit of what is done; True for the first, who has it served."""
        self._replies.append(reply)
        return len(self._replies) == 1

    def serve(self, client: StreamConsumer | None) -> bool:
        """Commit for all who wait; True when they have to be served again, after a while."""
        if not self._replies or self._tracker is None:
            return False
        try:
            committed = self.commit(client, self._tracker.to_commit())
        except (CommitFailed, CommitTimeout) as error:
            self.answer(error)
            return False
        if committed:
            self.answer(None)
        else:
            self._give_up(self._tracker)
        return bool(self._replies)

    def _give_up(self, tracker: OffsetTracker) -> None:
        """A commit was refused for now: fail those who do not want to try more often."""
        self._tries += 1
        given_up = [
            r for r in self._replies if isinstance(r, CommitReply) and self._tries > (r.max_retries or math.inf)
        ]
        if not given_up:
            return
        named = ", ".join(f"{key}@{offset}" for key, offset in list(tracker.to_commit().items())[:5])
        error = CommitTimeout(
            f"group {self._settings.group_id}: {named} not committed in {self._tries} tries; raise max_retries or look at the "
            "coordinator"
        )
        self._replies = [reply for reply in self._replies if reply not in given_up]
        for reply in given_up:
            reply.try_fail(error)
        if not self._replies:
            self._tries = 0

    def answer(self, error: BaseException | None) -> None:
        """Tell all who wait that the broker has it, or why it has not."""
        replies, self._replies = self._replies, []
        self._tries = 0
        for reply in replies:
            if error is None:
                reply.try_complete(None)
            else:
                reply.try_fail(error)

    def refuse(self, reply: StreamFuture[None]) -> None:
        """Answer one who asks when the consumer is closed: well if nothing is left to commit."""
        self._replies.append(reply)
        left = self._tracker.to_commit() if self._tracker is not None else {}
        named = ", ".join(f"{key}@{offset}" for key, offset in left.items())
        self.answer(CommitFailed(f"{named} not committed: the consumer is closed") if left else None)
