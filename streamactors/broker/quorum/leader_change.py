"""LeaderChange: the control record with which a leader begins its epoch in the metadata log. Pure.

Owner: the metadata log of a leader; a node reads it before it starts. Format: Apache Kafka's LeaderChangeMessage, version 0."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Final

from streamactors.broker.records.control_batch import LEADER_CHANGE, ControlRecord

_HEAD: Final = struct.Struct(">hi")  # version, leader
_VOTER: Final = struct.Struct(">iB")  # id, no tagged fields


def leader_change(leader: int, voters: Collection[int], granting: Collection[int]) -> ControlRecord:
    """Return the record with which `leader` begins its epoch; the `granting` voters have elected it."""
    value = bytearray(_HEAD.pack(0, leader))
    for each in (voters, granting):
        value.append(len(each) + 1)  # a length in one byte: a quorum has less than 127 voters
        _add_voters(value, sorted(each))
    value.append(0)  # no tagged fields
    return ControlRecord(LEADER_CHANGE, bytes(value))


def voters_of_change(value: bytes) -> frozenset[int]:
    """Return the ids of the voters that a LeaderChange names; none for a later version, which is of a log that names its voters itself."""
    if len(value) <= _HEAD.size or _HEAD.unpack_from(value)[0] != 0:
        return frozenset()
    count, begin = max(value[_HEAD.size] - 1, 0), _HEAD.size + 1
    if len(value) < begin + count * _VOTER.size:
        return frozenset()
    return frozenset(_VOTER.unpack_from(value, begin + each * _VOTER.size)[0] for each in range(count))


def _add_voters(value: bytearray, voters: Iterable[int]) -> None:
    for voter in voters:
        value += _VOTER.pack(voter, 0)
