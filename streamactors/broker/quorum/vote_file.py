"""quorum-state: the epoch of a node, the leader it knows in the epoch and the vote it gave. A vote must survive a power cut.

Owner: the node's quorum, which writes the file before it answers. JSON, version 1 (kraft.version 1) or 0, which has no folder id.
Source: KIP-595, KIP-853."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition_metadata import decode_uuid, encode_uuid

FILE_NAME: Final = "quorum-state"
VERSION: Final = 1
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Election:
    """The state of one epoch as a node knows it. None: no leader is known, or no vote was given."""

    epoch: int = 0
    leader: int | None = None
    voted: int | None = None
    voted_directory: uuid.UUID | None = None


def encode_election(election: Election) -> bytes:
    """The file's content."""
    content = {
        "leaderId": _NOBODY if election.leader is None else election.leader,
        "leaderEpoch": election.epoch,
        "votedId": _NOBODY if election.voted is None else election.voted,
        "votedDirectoryId": encode_uuid(election.voted_directory or uuid.UUID(int=0)),
        "data_version": VERSION,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def decode_election(data: bytes) -> Election:
    """Read the file's content. Raises ValueError, which names the wrong entry."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{FILE_NAME} is not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("data_version") not in (0, VERSION):
        raise ValueError("data_version is not 0 or 1; another version of Kafka wrote the file")
    epoch, leader, voted = (_number(content.get(name), name) for name in ("leaderEpoch", "leaderId", "votedId"))
    text = content.get("votedDirectoryId", encode_uuid(uuid.UUID(int=0)))
    if not isinstance(text, str):
        raise ValueError(f"votedDirectoryId is {text!r}, it must be a string")
    directory = decode_uuid(text)
    return Election(
        max(epoch, 0),
        None if leader == _NOBODY else leader,
        None if voted == _NOBODY else voted,
        directory if directory.int else None,
    )


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < -1:
        raise ValueError(f"{name} is {value!r}, it must be a number from -1")
    return value


def write_election(disk: Disk, folder: Path, election: Election) -> None:
    """Replace the file; it is on disk when this returns. Raises OSError."""
    disk.write_atomically(folder / FILE_NAME, encode_election(election))


def read_election(disk: Disk, folder: Path) -> Election:
    """Return what the file says, a new election without a file. Raises OSError and ValueError."""
    try:
        data = disk.read(folder / FILE_NAME)
    except FileNotFoundError:
        return Election()
    return decode_election(data)
