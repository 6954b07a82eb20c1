"""How a consumer ends: it waits until what is in flight is done, commits it, and closes; or its time is over.

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
from streamactors.kafka.reading.messages import Commits, StageEnded
from streamactors.kafka.reading.shared import Shared
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
    """Message to the actor itself: the end has had its time."""


class Ending:
    """See the module. `finish(error)` closes the consumer, `look_later(ms)` has `try_to_stop` called again."""

    def __init__(
        self,
        shared: Shared,
        commits: ConsumerCommits,
        ended: StreamFuture[None],
        finish: Callable[[BaseException | None], None],
        look_later: Callable[[float], None],
    ) -> None:
        self._shared = shared
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
        shared = self._shared
        shared.state.feed_gone(message.feed)
        shared.stopping = True
        wait_ms = shared.settings.close_timeout_ms
        self._failed = message.failed
        if message.failed:
            wait_ms = min(wait_ms, AFTER_FAILURE_MS)
        shared.stop_by = math.inf if without_deadline else shared.now_ms() + wait_ms
        if not without_deadline:
            self._arm()
        if shared.tracker is not None:
            shared.tracker.when_drained(lambda: shared.tell(Drained()))
        self.try_to_stop()

    def on_drained(self, _: Drained | Overdue) -> None:
        self.try_to_stop()

    def on_run_ended(self) -> None:
        """Every stage of the run has stopped."""
        self.run_ended = True
        shared = self._shared
        if not shared.stopping:
            return
        if shared.stop_by == math.inf:  # nothing is waited for any more but the last commit
            shared.stop_by = shared.now_ms() + shared.settings.close_timeout_ms
            self._arm()
        self.try_to_stop()

    def _arm(self) -> None:
        wait_ms = self._shared.settings.close_timeout_ms + OVERDUE_AFTER_MS
        self._deadline = self._shared.call_later(wait_ms, self._overdue)

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
            self._closer.join(self._shared.settings.close_timeout_ms / 1_000)

    def try_to_stop(self) -> None:
        """Commit what is done and close, unless records are in flight that may still become done."""
        shared, tracker = self._shared, self._shared.tracker
        if self._closing:
            return
        if tracker is None:
            self._finish(None)
            return
        if self._over:
            left = tracker.to_commit()
            self._finish(self._too_late(left) if left else None)
            return
        in_time = shared.now_ms() <= shared.stop_by
        needed = shared.commits is Commits.TRANSACTION or tracker.until_run_ends or tracker.in_flight()
        if in_time and not self.run_ended and needed:
            self._look_later(shared.settings.poll_interval_ms)  # rebalances are served meanwhile
            return
        if self._commits.in_flight:
            self._look_later(self._commits.poll_after_ms())
            return
        if not self._failed and not self.run_ended and (late := tracker.in_flight() | tracker.owed().keys()):
            self._say_late(late)
        self._commits.commit(tracker.to_commit(), self._committed)

    def _committed(self, outcome: Outcome) -> None:
        """The last commit has an outcome."""
        shared = self._shared
        if self._closing:
            return
        if isinstance(outcome, BaseException):
            self._finish(outcome)
        elif outcome is True:
            self._finish(None)
        elif shared.now_ms() <= shared.stop_by:
            self._look_later(COMMIT_RETRY_MS)
        else:
            assert shared.tracker is not None
            self._finish(self._too_late(shared.tracker.to_commit()))

    def _say_late(self, late: set[TopicPartition]) -> None:
        settings = self._shared.settings
        _log.warning(
            "group %s: records of %s, or results of its windows, were in flight %d ms after the stream was stopped; they are not committed, and "
            "the next run processes them again. Raise close_timeout_ms if they need longer",
            settings.group_id,
            ", ".join(map(str, sorted(late)[:5])),
            settings.close_timeout_ms,
        )

    def _too_late(self, left: dict[TopicPartition, int]) -> CommitTimeout:
        settings = self._shared.settings
        named = ", ".join(f"{key}@{offset}" for key, offset in list(left.items())[:5])
        return CommitTimeout(
            f"group {settings.group_id}: {named} not committed in {settings.close_timeout_ms} ms "
            "after the stream's end; raise close_timeout_ms or look at the coordinator"
        )

    def _overdue(self) -> None:
        """Fail the future of the end, which is late; any thread. The actor may wait for the broker in a rebalance."""
        shared = self._shared
        if shared.now_ms() < shared.stop_by and not self._closing:
            return  # it has all the time that its run takes
        left = shared.tracker.to_commit() if shared.tracker is not None else {}
        error: KafkaError = self._too_late(left)
        if not left:
            error = ConsumerFailed(
                f"the consumer of {shared.settings.bootstrap_servers} is not closed {shared.settings.close_timeout_ms} ms after "
                "the stream's end; its group forgets it after session.timeout.ms"
            )
        self._ended.try_fail(error)
        self._over = True
        shared.tell(Overdue())

    def cancel(self) -> None:
        """The consumer is closed."""
        if self._deadline is not None:
            self._deadline.cancel()
