"""A new member that gets no partitions: logs what the group probably waits for.

A broker holds back the first rebalance of a group (group.initial.rebalance.delay.ms, 3 s) and longer while further members come. So nothing
is logged before the group has had the same members for WAITING_MS. Owner: the consumer actor; it looks on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.admin_values import Member
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.kafka")

WAITING_MS: Final = 5_000
"""How long a member waits between two looks at its group."""
SESSION_MS: Final = 45_000
"""librdkafka's default of session.timeout.ms."""


class WaitingMember:
    """Logs what the group probably waits for while a new member has no partitions. `joined()`: whether the member has had its first assignment."""

    def __init__(self, context: ConsumerContext, joined: Callable[[], bool]) -> None:
        self._context = context
        self._joined = joined
        self._timer: Any = None
        self._members: frozenset[str] = frozenset()
        self._waited_ms = 0

    def begin(self) -> None:
        """The consumer has subscribed."""
        self._timer = self._context.call_later(WAITING_MS, self._look_apart)

    def cancel(self) -> None:
        """The consumer is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> bool:
        return self._joined() or self._context.client is None or self._context.stopping

    def _look_apart(self) -> None:  # any thread
        self._waited_ms += WAITING_MS
        if not self._over():
            threading.Thread(
                target=self._look, name=f"members of {self._context.settings.group_id}", daemon=True
            ).start()

    def _look(self) -> None:
        settings = self._context.settings
        try:
            with Admin(settings) as admin:
                members = admin.members(settings.group_id or "")
        except KafkaError:
            members = ()  # the broker is away, which is logged elsewhere
        if not self._over() and not self.look_at(members):
            self.begin()

    def look_at(self, members: tuple[Member, ...]) -> bool:
        """Look at the members of the group; return whether a line was logged."""
        before, self._members = self._members, frozenset(member.member_id for member in members)
        if not members or before != self._members:
            return False
        settings = self._context.settings
        session_ms = int(settings.client_properties().get("session.timeout.ms", SESSION_MS))
        session_of = "consumer." if settings.group_protocol == "consumer" else ""
        log_limited(
            _log,
            logging.WARNING,
            settings.group_id,
            "group %s: no partitions after %g s. Of its members (%s) the group waits for one that does not answer, such as a killed process: "
            "until that member's session times out (%g s here, %ssession.timeout.ms) or its last poll is max.poll.interval.ms old. With "
            "group.instance.id a restarted process takes its own place at once",
            settings.group_id,
            self._waited_ms / 1_000,
            ", ".join(sorted(f"{member.client_id} at {member.host}" for member in members)[:5]),
            session_ms / 1_000,
            session_of,
        )
        return True
