"""quorum-state: Kafka's text, both of its versions, and damage."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from streamactors.broker.log.disk import Disk
from streamactors.broker.quorum.vote_file import (
    FILE_NAME,
    Election,
    decode_election,
    encode_election,
    read_election,
    write_election,
)

DIRECTORY = uuid.UUID("3e8f0c2a-7b1d-4d5e-9f60-123456789abc")


@pytest.mark.parametrize(
    "election", [Election(), Election(7, leader=2), Election(8, voted=3, voted_directory=DIRECTORY), Election(9, 1, 1)]
)
def test_an_election_survives_the_file(election: Election, tmp_path: Path) -> None:
    write_election(Disk(), tmp_path, election)
    assert read_election(Disk(), tmp_path) == election


def test_a_folder_without_the_file_is_in_epoch_0(tmp_path: Path) -> None:
    assert read_election(Disk(), tmp_path) == Election(0)


def test_the_text_is_kafkas() -> None:
    assert encode_election(Election(5, leader=1)) == (
        b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


def test_version_0_has_no_folder_id() -> None:
    text = b'{"clusterId":"","leaderId":-1,"leaderEpoch":4,"votedId":3,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    assert decode_election(text) == Election(4, voted=3)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "quorum-state"),
        (b"[]", "data_version"),
        (b'{"data_version":2}', "data_version"),
        (b'{"leaderId":1,"votedId":-1,"data_version":1}', "leaderEpoch is None"),
        (b'{"leaderId":true,"leaderEpoch":1,"votedId":-1,"data_version":1}', "leaderId is True"),
        (b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":4,"data_version":1}', "votedDirectoryId"),
    ],
)
def test_damage_is_named(data: bytes, named: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(ValueError, match=named):
        read_election(Disk(), tmp_path)
