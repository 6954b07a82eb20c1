"""Creates the internal topics of streams groups: one attempt at a time for each topic.

Owner: the node, on the data plane. Every heartbeat of a group whose internal topics are missing asks for them, until they are there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from streamactors.broker.controller.command import CreateTopics, NewTopic, TopicCreated
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.streams.streams_record import InternalTopic
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.group")


class InternalTopics:
    """The topics that are being created. `submit` gives a command to the active controller, with the function for its answer."""

    def __init__(self, submit: Callable[[Any, Callable[[Any], object]], object]) -> None:
        self._submit = submit
        self._under_way: set[str] = set()
        self.failed: dict[str, str] = {}
        """Why a topic was not created at the last attempt; forgotten when it succeeds."""

    def create(self, group_id: str, topics: Iterable[InternalTopic]) -> None:
        """Have the missing topics created, with the settings that the application gave them."""
        wanted = [each for each in topics if each.name not in self._under_way]
        if not wanted:
            return
        self._under_way.update(each.name for each in wanted)
        command = CreateTopics(tuple(map(_new_topic, wanted)))
        self._submit(command, partial(self._ended, group_id, [each.name for each in wanted]))

    def _ended(self, group_id: str, names: list[str], created: dict[str, TopicCreated]) -> None:
        for name in names:
            self._under_way.discard(name)
            outcome = created[name].outcome
            if outcome.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.failed.pop(name, None)
                continue
            self.failed[name] = outcome.message or outcome.code.name
            log_limited(
                _log, logging.WARNING, (group_id, name, outcome.code),
                "group %s: its internal topic %s cannot be created: %s", group_id, name, self.failed[name],
            )  # fmt: skip


def _new_topic(topic: InternalTopic) -> NewTopic:
    configs = tuple((each.key, each.value) for each in topic.configs)
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or -1, configs=configs)
