"""The voters in the metadata log, as Apache Kafka writes and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.voters_record.v0.data import VotersRecord
from kio.serial import entity_reader

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition_metadata import decode_uuid, encode_uuid
from streamactors.broker.metadata.snapshot import encode_snapshot, snapshot_name
from streamactors.broker.quorum.stored_voters import stored_voters
from streamactors.broker.quorum.voter_set import VoterSet, parse_voters, voters_of
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.control_batch import ControlRecord, control_batch
from streamactors.broker.records.record import NewRecord

ONE, TWO = "QEOMgVHXTfOVhlLkAbFR6A", "7rvIwioJRIaji02zL2jmuw"
NOW_MS = 1_700_000_000_000
# the records of a folder that Apache Kafka 4.1.1 formatted with --initial-controllers "1@127.0.0.1:19093:…,2@localhost:29093:…"
KAFKAS = [
    ControlRecord(5, bytes.fromhex("0000000100")),
    ControlRecord(
        6,
        bytes.fromhex(
            "0000030000000140438c8151d74df3958652e401b151e8020b434f4e54524f4c4c45520a3132372e302e302e314a9500"
            "00000001000000000002eebbc8c22a094486a38b4db32f68e6bb020b434f4e54524f4c4c45520a6c6f63616c686f7374"
            "71a50000000001000000"
        ),
    ),
]


def two() -> VoterSet:
    return parse_voters(f"2@localhost:29093:{TWO}, 1@127.0.0.1:19093:{ONE}", "CONTROLLER")


def test_the_records_are_those_of_apache_kafka_to_the_byte() -> None:
    assert list(two().records()) == KAFKAS
    assert voters_of(KAFKAS) == two()


def test_another_reader_of_the_format_reads_the_voters() -> None:
    read, size = entity_reader(VotersRecord)(two().records()[1].value, 0)
    assert size == len(two().records()[1].value)
    assert [(each.voter_id, encode_uuid(each.voter_directory_id)) for each in read.voters] == [(1, ONE), (2, TWO)]
    assert [(each.name, each.host, each.port) for each in read.voters[1].endpoints] == [
        ("CONTROLLER", "localhost", 29093)
    ]


def test_a_set_names_its_voters_in_the_order_of_their_ids() -> None:
    assert str(two()) == f"1@127.0.0.1:19093:{ONE},2@localhost:29093:{TWO}"
    assert two().ids == {1, 2}
    assert two().directory_of(2) == decode_uuid(TWO)
    assert two().directory_of(3) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1@127.0.0.1:9093", "its form is id@host:port:directory"),
        (f"1@127.0.0.1:0:{ONE}", "its form is id@host:port:directory"),
        (f"x@127.0.0.1:9093:{ONE}", "its form is id@host:port:directory"),
        ("1@127.0.0.1:9093:AAAAAAAAAAAAAAAAAAAAAQ", "reserved"),
        ("1@127.0.0.1:9093:short", "22 characters of base64url"),
        (f"1@a:9093:{ONE},1@b:9093:{TWO}", "controller 1 is named twice"),
    ],
)
def test_a_text_that_is_no_set_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_voters(text, "CONTROLLER")


def test_the_newest_record_in_a_folder_counts(tmp_path: Path) -> None:
    disk = Disk()
    assert stored_voters(disk, tmp_path / "none") is None
    only_one = parse_voters(f"1@127.0.0.1:19093:{ONE}", "CONTROLLER")
    (tmp_path / snapshot_name(0, 0)).write_bytes(encode_snapshot((), 0, NOW_MS, only_one.records()))
    assert stored_voters(disk, tmp_path) == only_one
    data = build_batch([NewRecord(None, b"no record of the quorum", NOW_MS)], leader_epoch=1)
    later = control_batch(two().records(), NOW_MS, base_offset=1, leader_epoch=1)
    (tmp_path / f"{0:020d}.log").write_bytes(bytes(data + later + later[:40]))  # the last batch is not whole
    assert stored_voters(disk, tmp_path) == two()
