"""New partitions that a group's leader has not noticed: the group's coordinator is asked who reads them, on a separate thread.

Only the leader of a group notices new partitions, and librdkafka's leader looks only at the topics that it reads itself. The member that
reads the topic must leave the group and join again then: a coordinator answers a member that joins with the same topics without a new
assignment. Owner: the consumer of a stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import GroupNotFound, KafkaError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

STABLE: Final = "Stable"


class Unassigned:
    """Runs one such request at a time; `take` returns what was found."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._asking = False
        self._found: list[TopicPartition] = []
        self._warned = False
        properties = settings.client_properties()
        step_by_step = "cooperative" in str(properties.get("partition.assignment.strategy", ""))
        # a cooperative member tells the leader what it owns, so joining again is enough; a broker that divides notices itself
        self._group_notices = step_by_step or settings.group_protocol == "consumer"
        self._static = "group.instance.id" in properties

    def ask(self, grown: Mapping[str, int]) -> None:
        """Begin to look up which partitions of these topics no member of the group reads. Returns at once."""
        if not self._asking and not self._group_notices:
            self._asking = True
            who = f"new partitions of {', '.join(sorted(grown))}"
            threading.Thread(target=self._look, args=(dict(grown),), name=who, daemon=True).start()

    def take(self) -> list[TopicPartition]:
        """Return the partitions that no member reads, once; nothing for a static member, which cannot leave."""
        found, self._found = self._found, []
        if found and self._static:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "%s: group %s assigns %s to no member: its leader does not read the topic, and a member with a group.instance.id keeps its "
                    "place. Restart the members, or let all of them subscribe to the same topics",
                    self._settings.bootstrap_servers,
                    self._settings.group_id,
                    ", ".join(map(str, found)),
                )
            return []
        return found

    def _look(self, grown: dict[str, int]) -> None:
        try:
            with Admin(self._settings) as admin:
                group = admin.describe_group(self._settings.group_id or "")
        except (KafkaError, GroupNotFound):
            return  # the next statistics ask again
        finally:
            self._asking = False
        if group.state == STABLE:
            owned = {key for member in group.members for key in member.partitions}
            every = (TopicPartition(topic, number) for topic, count in sorted(grown.items()) for number in range(count))
            self._found = [key for key in every if key not in owned]
