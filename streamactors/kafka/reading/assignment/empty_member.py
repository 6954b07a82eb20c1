"""A new member of a consumer group (KIP-848) to which the broker gives no partition.

librdkafka reports an assignment when it differs from the last one, so a first assignment without partitions is never reported. The coordinator
is asked instead: if the group is stable and this member has nothing, that is its assignment. Owner: the consumer actor; the question is asked on a
thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.unassigned import STABLE
from streamactors.kafka.errors import GroupNotFound, KafkaError
from streamactors.kafka.reading.consumer_context import ConsumerContext

FIRST_LOOK_MS: Final = 500
LONGEST_MS: Final = 5_000
"""The time between two looks begins with FIRST_LOOK_MS and doubles up to this."""


@dataclass(frozen=True, slots=True)
class MembersWithout:
    """These members of a stable group have no partitions."""

    members: frozenset[str]


class EmptyMember:
    """Asks until the member has its first assignment. `joined()`: whether it has."""

    def __init__(self, context: ConsumerContext, joined: Callable[[], bool]) -> None:
        self._context = context
        self._joined = joined
        self._timer: Any = None
        self._after_ms = FIRST_LOOK_MS

    def begin(self) -> None:
        """The consumer has subscribed."""
        if self._context.settings.group_protocol == "consumer":
            self._timer = self._context.call_later(self._after_ms, self._look_apart)
            self._after_ms = min(2 * self._after_ms, LONGEST_MS)

    def cancel(self) -> None:
        """The consumer is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> bool:
        return self._joined() or self._context.client is None or self._context.stopping

    def _look_apart(self) -> None:  # any thread
        if not self._over():
            who = f"members of {self._context.settings.group_id} without partitions"
            threading.Thread(target=self._look, name=who, daemon=True).start()

    def _look(self) -> None:
        settings = self._context.settings
        try:
            with Admin(settings) as admin:
                group = admin.describe_group(settings.group_id or "")
        except (KafkaError, GroupNotFound):
            pass  # the broker is away, which is logged elsewhere, or has not heard of the group
        else:
            if group.state == STABLE:
                empty = frozenset(each.member_id for each in group.members if not each.partitions)
                self._context.tell(MembersWithout(empty))
        if not self._over():
            self.begin()
