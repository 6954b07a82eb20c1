"""Setting and deleting the start offsets of an empty share group.

Owner: `ShareKind`. Rules and messages: Apache Kafka's GroupMetadataManager and GroupCoordinatorService."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.share.share_group import ShareGroup, TopicPartitions
from streamactors.broker.group.share.share_messages import (
    AlterShareOffsets,
    DeleteShareOffsets,
    OffsetsAnswer,
    Outcome,
    StatesDeleted,
)
from streamactors.broker.group.share.share_rules import Begin, set_states
from streamactors.broker.share.state.share_asks import StateAnswer

if TYPE_CHECKING:
    from streamactors.broker.group.share.share_kind import ShareKind

UNKNOWN_TOPIC: Final = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
_NOT_EMPTY: Final = Outcome(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
_NOTHING_THERE: Final = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")


def alter(kind: ShareKind, message: AlterShareOffsets) -> None:
    """Begin share partitions anew at the given offsets, and answer when the share coordinator has."""
    try:
        group = kind.group(message.group_id) or ShareGroup(message.group_id)
    except Refusal as refusal:
        message.reply_to(OffsetsAnswer(Outcome(refusal.code, refusal.message), {}))
        return
    if group.members:
        message.reply_to(OffsetsAnswer(_NOT_EMPTY, {}))
        return
    facts = kind.needs.facts(message.group_id)
    found: dict[str, dict[int, Outcome]] = {}
    begins: list[Begin] = []
    wanted: dict[uuid.UUID, TopicPartitions] = dict(group.initializing)
    for name, offsets in message.offsets.items():
        topic = facts.image.topics.get(name)
        known = {each for each in offsets if topic is not None and 0 <= each < len(topic.partitions)}
        found[name] = {each: Outcome() if each in known else UNKNOWN_TOPIC for each in offsets}
        if topic is not None and known:
            begins += [Begin(topic.topic_id, each, group.epoch, offsets[each]) for each in sorted(known)]
            before = wanted.get(topic.topic_id)
            partitions = frozenset(known) | (before.partitions if before is not None else frozenset())
            wanted[topic.topic_id] = TopicPartitions(name, partitions, facts.now_ms)
    if not begins:
        message.reply_to(OffsetsAnswer(Outcome(), found))
        return
    names = {facts.image.topics[name].topic_id: name for name in found if name in facts.image.topics}
    deleting = {each: name for each, name in group.deleting.items() if each not in wanted}

    def begun(answers: Mapping[tuple[uuid.UUID, int], StateAnswer]) -> None:
        for (topic_id, partition), answer in answers.items():
            found[names[topic_id]][partition] = Outcome(answer.error, answer.message)
        message.reply_to(OffsetsAnswer(Outcome(), found))

    def written(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            message.refuse(error)
        else:
            kind.begin(message.group_id, begins, begun)

    kind.write(set_states(group, facts, initializing=wanted, deleting=deleting), written, message.refuse)


def delete(kind: ShareKind, message: DeleteShareOffsets) -> None:
    """Forget the share partitions of topics, and answer when the share coordinator has."""
    try:
        group = kind.group(message.group_id)
    except Refusal as refusal:
        message.reply_to(OffsetsAnswer(Outcome(refusal.code, refusal.message), {}))
        return
    if group is None:
        outcome = Outcome(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} not found.")
        message.reply_to(OffsetsAnswer(outcome, {}))
        return
    if group.members:
        message.reply_to(OffsetsAnswer(_NOT_EMPTY, {}))
        return
    facts = kind.needs.facts(message.group_id)
    found: dict[str, Outcome | Mapping[int, Outcome]] = {}
    forgotten: dict[uuid.UUID, frozenset[int]] = {}
    initialized, deleting = dict(group.initialized), dict(group.deleting)
    for name in message.topics:
        topic = facts.image.topics.get(name)
        if topic is None:
            found[name] = UNKNOWN_TOPIC
        elif topic.topic_id in initialized:
            forgotten[topic.topic_id] = initialized.pop(topic.topic_id).partitions
            deleting[topic.topic_id] = name
            found[name] = Outcome()
        elif topic.topic_id in deleting:
            forgotten[topic.topic_id] = frozenset(range(len(topic.partitions)))
            found[name] = Outcome()
        else:
            found[name] = _NOTHING_THERE
    answer = OffsetsAnswer(Outcome(), found)
    if not forgotten:
        message.reply_to(answer)
        return

    def ended() -> None:
        kind.tell(StatesDeleted(message.group_id, frozenset(forgotten)))
        message.reply_to(answer)

    def written(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            message.refuse(error)
        else:
            kind.forget(message.group_id, forgotten, ended)

    kind.write(set_states(group, facts, initialized=initialized, deleting=deleting), written, message.refuse)
