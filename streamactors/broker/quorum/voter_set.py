"""The voters of the metadata log, each with its folder and its addresses, as the log itself keeps them (KIP-853). Pure.

A set in the log counts as soon as a replica has it, before it is committed. Two records keep it: KRaftVersion says that the log has the
voters, KRaftVoters names them. With kraft.version 0 the setting controller.quorum.voters names them instead."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.partition_metadata import decode_uuid, encode_uuid
from streamactors.broker.protocol.record_schema import (
    INT16,
    INT32,
    TEXT,
    UINT16,
    UUID,
    Form,
    array,
    structure,
)
from streamactors.broker.records.control_batch import KRAFT_VERSION, KRAFT_VOTERS, ControlRecord

KRAFT_VERSIONS: Final = (0, 1)
"""The lowest and the highest level of the feature kraft.version."""

RESERVED_IDS: Final = 100
"""This many ids, from 0 on, are reserved: none is that of a folder."""

_FORM: Final = Form(0, True)


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """Where a voter listens for the other controllers."""

    name: Annotated[str, TEXT]
    host: Annotated[str, TEXT]
    port: Annotated[int, UINT16]


@dataclass(frozen=True, slots=True)
class KraftVersions:
    """The levels of kraft.version that a voter supports."""

    lowest: Annotated[int, INT16] = KRAFT_VERSIONS[0]
    highest: Annotated[int, INT16] = KRAFT_VERSIONS[1]


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter. The folder tells it from a node of the same id whose disk was replaced."""

    node_id: Annotated[int, INT32]
    directory_id: Annotated[uuid.UUID, UUID]
    endpoints: Annotated[tuple[VoterEndpoint, ...], array(structure(VoterEndpoint))]
    kraft_versions: Annotated[KraftVersions, structure(KraftVersions)] = KraftVersions()

    def address(self, listener: str = "") -> tuple[str, int]:
        """Return the host and port of a listener, of the first one if there is none of this name."""
        found = next((each for each in self.endpoints if each.name == listener), self.endpoints[0])
        return found.host, found.port

    def __str__(self) -> str:
        host, port = self.address()
        return f"{self.node_id}@{host}:{port}:{encode_uuid(self.directory_id)}"


@dataclass(frozen=True, slots=True)
class _VotersRecord:
    version: Annotated[int, INT16]
    voters: Annotated[tuple[Voter, ...], array(structure(Voter))]


@dataclass(frozen=True, slots=True)
class _VersionRecord:
    version: Annotated[int, INT16]
    level: Annotated[int, INT16]


_VOTERS: Final = structure(_VotersRecord)
_VERSION: Final = structure(_VersionRecord)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters, in the order of their ids."""

    voters: tuple[Voter, ...]

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(each.node_id for each in self.voters)

    @property
    def keys(self) -> frozenset[tuple[int, uuid.UUID]]:
        """The id and the folder of each voter. Two sets have the same voters if these are equal."""
        return frozenset((each.node_id, each.directory_id) for each in self.voters)

    def __str__(self) -> str:
        return ",".join(map(str, self.voters))

    def voter(self, node_id: int) -> Voter | None:
        """Return the voter of this id, None if there is none."""
        return next((each for each in self.voters if each.node_id == node_id), None)

    def records(self) -> tuple[ControlRecord, ...]:
        """Return the records with which a log begins to name its voters."""
        level = bytearray()
        _VERSION.write(level, _VersionRecord(0, KRAFT_VERSIONS[1]), _FORM)
        return ControlRecord(KRAFT_VERSION, bytes(level)), self.record()

    def record(self) -> ControlRecord:
        """Return the record that names these voters."""
        named = bytearray()
        _VOTERS.write(named, _VotersRecord(0, self.voters), _FORM)
        return ControlRecord(KRAFT_VOTERS, bytes(named))

    def directory_of(self, node_id: int) -> uuid.UUID | None:
        """Return the id of a voter's folder, None for a node without a vote."""
        found = self.voter(node_id)
        return None if found is None else found.directory_id

    @property
    def folders(self) -> dict[int, uuid.UUID]:
        """The id of each voter's folder, by the id of the voter."""
        return {each.node_id: each.directory_id for each in self.voters}

    def addresses(self, listener: str = "") -> dict[int, tuple[str, int]]:
        """Return (host, port) of each voter by id, at its listener of this name."""
        return {each.node_id: each.address(listener) for each in self.voters}

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return the set with this voter, in the place of a voter of its id if there is one."""
        return voter_set([*(each for each in self.voters if each.node_id != voter.node_id), voter])

    def without(self, node_id: int) -> VoterSet:
        """Return the set without the voter of this id."""
        return voter_set(each for each in self.voters if each.node_id != node_id)


def voter_set(voters: Iterable[Voter]) -> VoterSet:
    """Return the set of these voters. Raises ValueError, which names the voter that is twice in it, or has no address."""
    found = tuple(sorted(voters, key=lambda each: each.node_id))
    for one, other in pairwise(found):
        if one.node_id == other.node_id:
            raise ValueError(f"controller {one.node_id} is named twice")
    if not found:
        raise ValueError("no controller is named")
    for each in found:
        if not each.endpoints:
            raise ValueError(f"controller {each.node_id} has no address")
    return VoterSet(found)


def parse_voters(text: str, listener: str) -> VoterSet:
    """Return the voters of a string `id@host:port:directory,…`; `listener` is the name of their listeners. Raises ValueError."""
    found = []
    for each in text.split(","):
        node_id, _, rest = each.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        if not node_id.isdecimal() or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"{each}: its form is id@host:port:directory")
        try:
            directory_id = decode_uuid(directory)
        except ValueError as error:
            raise ValueError(f"{each}: the folder's id after the port is 22 characters of base64url") from error
        if directory_id.int < RESERVED_IDS:
            raise ValueError(
                f"{each}: the folder's id {directory} is reserved; streamactors storage random-uuid makes one"
            )
        endpoint = VoterEndpoint(listener, host.strip("[]"), int(port))
        found.append(Voter(int(node_id), directory_id, (endpoint,)))
    return voter_set(found)


def voters_of(records: Iterable[ControlRecord]) -> VoterSet | None:
    """Return the voters that control records name last, None if they name none. Raises CorruptMessage and CorruptRecord."""
    found = None
    for kind, value in records:
        if kind == KRAFT_VOTERS:
            try:
                found = voter_set(_VOTERS.read(value, 0, _FORM)[0].voters)
            except ValueError as error:
                raise CorruptMessage(f"a record of the quorum's voters: {error}") from error
    return found
