"""How a consumer ends: it waits until what is in flight is done, commits it, and closes; or its deadline passes.

    stage ended ──► nothing in flight, the run has ended, or the deadline has passed ──► last commit ──► group left, closed

Neither the last commit nor the closing holds the actor's thread. At the deadline `is_shutdown` fails, though librdkafka may still wait for a broker that
is away.

When a bounded read has delivered everything, or the control drains, the deadline begins when the run has ended: the last records may need
any time, and the run ends with them.
Where a transaction commits the positions, the consumer stays until the run has ended, though nothing is in flight: the last commit needs
its group membership, also when it only moves positions to a new assignment. Where windows keep a changelog, the consumer stays, too: the entries
for the end of the input move no position, and the user may end the system when the consumer has closed.
Owner: the consumer actor. Rebalances are served while it waits."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import CommitTimeout, ConsumerFailed, KafkaError
from streamactors.kafka.reading.commits import COMMIT_RETRY_MS, ConsumerCommits, Outcome
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.messages import Commits, StageEnded
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger(__name__)

OVERDUE_AFTER_MS = 500.0
"""How long after its deadline the last commit, and the close of librdkafka's client, are waited for."""
AFTER_FAILURE_MS = 250
"""How long what is in flight may become done when the stream has failed: most of it is lost. In a RestartSource the next instance waits
for this one to leave the group."""


class Drained:
    """Message to the actor itself: the stream has ended and no record is in flight."""


class Closed:
    """Message to the actor itself: its client is closed."""


class Overdue:
    """Message to the actor itself: the deadline of the end has passed."""


class Ending:
    """Ends the consumer once its stream has ended and its records are committed. `finish(error)` closes the consumer, `look_later(ms)` has `try_to_stop` called again."""

    def __init__(
        self,
        context: ConsumerContext,
        commits: ConsumerCommits,
        ended: StreamFuture[None],
        finish: Callable[[BaseException | None], None],
        look_later: Callable[[float], None],
    ) -> None:
        self._context = context
        self._commits = commits
        self._ended = ended
        self._finish = finish
        self._look_later = look_later
        self._deadline: Any = None
        self._failed = False
        self._over = False  # the deadline has passed, and so has the time for the last commit
        self._closing = False
        self._closer: threading.Thread | None = None  # closes the client
        self.closed = False
        self.run_ended = False

    def begin(self, message: StageEnded, *, without_deadline: bool) -> None:
        """The stage has ended."""
        context = self._context
        context.state.feed_gone(message.feed)
        context.stopping = True
        wait_ms = context.settings.close_timeout_ms
        self._failed = message.failed
        if message.failed:
            wait_ms = min(wait_ms, AFTER_FAILURE_MS)
        context.stop_by = math.inf if without_deadline else context.now_ms() + wait_ms
        if not without_deadline:
            self._arm()
        if context.tracker is not None:
            context.tracker.when_drained(lambda: context.tell(Drained()))
        self.try_to_stop()

    def on_drained(self, _: Drained | Overdue) -> None:
        self.try_to_stop()

    def on_run_ended(self) -> None:
        """Every stage of the run has stopped."""
        self.run_ended = True
        context = self._context
        if not context.stopping:
            return
        if context.stop_by == math.inf:  # nothing is waited for any more but the last commit
            context.stop_by = context.now_ms() + context.settings.close_timeout_ms
            self._arm()
        self.try_to_stop()

    def _arm(self) -> None:
        wait_ms = self._context.settings.close_timeout_ms + OVERDUE_AFTER_MS
        self._deadline = self._context.call_later(wait_ms, self._overdue)

    def close(self, client: StreamConsumer, name: str, then: Callable[[BaseException | None], None]) -> None:
        """Leave the group and close the client, on a thread of its own; `then` gets the error, on this thread.

        A close has a deadline, too, when a failure or the actor system ends the consumer."""
        self._closing = True
        if self._deadline is None:
            self._arm()
        self._closer = threading.Thread(target=self._close, args=(client, then), name=name, daemon=True)
        self._closer.start()

    def _close(self, client: StreamConsumer, then: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            client.close()
        except Exception as raised:  # noqa: BLE001  # of a rebalance that the close has served
            error = raised
        self.closed = True
        then(error)

    def wait_until_closed(self) -> None:
        """Wait for the close within close_timeout_ms."""
        if self._closer is not None:
            self._closer.join(self._context.settings.close_timeout_ms / 1_000)

    def try_to_stop(self) -> None:
        """Commit what is done and close, unless records are in flight that may still become done."""
        context, tracker = self._context, self._context.tracker
        if self._closing:
            return
        if tracker is None:
            self._finish(None)
            return
        if self._over:
            left = tracker.to_commit()
            self._finish(self._too_late(left) if left else None)
            return
        in_time = context.now_ms() <= context.stop_by
        needed = context.commits is Commits.TRANSACTION or tracker.until_run_ends or tracker.in_flight()
        if in_time and not self.run_ended and needed:
            self._look_later(context.settings.poll_interval_ms)  # rebalances are served meanwhile
            return
        if self._commits.in_flight:
            self._look_later(self._commits.poll_after_ms())
            return
        if not self._failed and not self.run_ended and (late := tracker.in_flight() | tracker.owed().keys()):
            self._say_late(late)
        self._commits.commit(tracker.to_commit(), self._committed)

    def _committed(self, outcome: Outcome) -> None:
        """The last commit has an outcome."""
        context = self._context
        if self._closing:
            return
        if isinstance(outcome, BaseException):
            self._finish(outcome)
        elif outcome is True:
            self._finish(None)
        elif context.now_ms() <= context.stop_by:
            self._look_later(COMMIT_RETRY_MS)
        else:
            assert context.tracker is not None
            self._finish(self._too_late(context.tracker.to_commit()))

    def _say_late(self, late: set[TopicPartition]) -> None:
        settings = self._context.settings
        _log.warning(
            "group %s: records of %s, or results of its windows, were in flight %d ms after the stream was stopped; they are not committed, and "
            "the next run processes them again. Raise close_timeout_ms if they need longer",
            settings.group_id,
            ", ".join(map(str, sorted(late)[:5])),
            settings.close_timeout_ms,
        )

    def _too_late(self, left: dict[TopicPartition, int]) -> CommitTimeout:
        settings = self._context.settings
        named = ", ".join(f"{key}@{offset}" for key, offset in list(left.items())[:5])
        return CommitTimeout(
            f"group {settings.group_id}: {named} not committed in {settings.close_timeout_ms} ms "
            "after the stream's end; raise close_timeout_ms or look at the coordinator"
        )

    def _overdue(self) -> None:
        """Fail the future of the end, which is late; any thread. The actor may wait for the broker in a rebalance."""
        context = self._context
        if context.now_ms() < context.stop_by and not self._closing:
            return  # it has all the time that its run takes
        left = context.tracker.to_commit() if context.tracker is not None else {}
        error: KafkaError = self._too_late(left)
        if not left:
            error = ConsumerFailed(
                f"the consumer of {context.settings.bootstrap_servers} is not closed {context.settings.close_timeout_ms} ms after "
                "the stream's end; its group forgets it after session.timeout.ms"
            )
        self._ended.try_fail(error)
        self._over = True
        context.tell(Overdue())

    def cancel(self) -> None:
        """The consumer is closed."""
        if self._deadline is not None:
            self._deadline.cancel()
