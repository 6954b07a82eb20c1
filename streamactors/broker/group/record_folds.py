"""The records of `__consumer_offsets` by the version of their key, and how each is folded into the map of groups.

Owner: `group_loading.py`. A kind of groups adds its rows here. Key versions 0 and 1 are committed offsets, which are no group's.
Source: Apache Kafka's CoordinatorRecordType."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.consumer.consumer_fold import CONSUMER_FOLDS
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.group_record import KEY_VERSION, decode_group_key, decode_group_value
from streamactors.broker.group.share.share_fold import SHARE_FOLDS
from streamactors.broker.group.streams.streams_fold import STREAMS_FOLDS

Groups = dict[str, CoordinatedGroup]
Fold = Callable[[Groups, bytes, "bytes | None", GroupRules], None]
"""Applies one record, (groups, key, value, rules of classic groups). Raises CorruptRecord."""


def _fold_classic(groups: Groups, key: bytes, value: bytes | None, rules: GroupRules) -> None:
    group_id = decode_group_key(key)
    if value is not None:
        groups[group_id] = decode_group_value(group_id, value, rules)
    elif isinstance(groups.get(group_id), Group):
        del groups[group_id]


FOLDS: Final[Mapping[int, Fold]] = {
    KEY_VERSION: _fold_classic,
    **CONSUMER_FOLDS,
    **SHARE_FOLDS,
    **STREAMS_FOLDS,
}
