"""A broker's copy of the metadata log: committed batches become deltas, snapshots replace it, a restart finds it again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from streamactors.broker.errors import BrokerStartError, CorruptMessage, StorageError, StorageShortage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.membership.metadata_copy import MetadataCopy, WouldLoseCommitted
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_codec import encode_record
from streamactors.broker.metadata.metadata_record import FeatureLevel, MetadataRecord
from streamactors.broker.metadata.snapshot import encode_snapshot
from streamactors.broker.quorum.observer_state import EndOfLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.short_disk import ShortDisk

NOW_MS = 1_700_000_000_000


def manager(folder: Path, disk: ShortDisk | None = None) -> LogManager:
    logs = LogManager(folder, default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    logs.open()
    return logs


def opened(logs: LogManager) -> MetadataCopy:
    return MetadataCopy.open(logs, lambda: NOW_MS)


def batch(offset: int, epoch: int, *records: MetadataRecord) -> bytes:
    values = [NewRecord(None, encode_record(record), NOW_MS) for record in records]
    return bytes(build_batch(values, base_offset=offset, leader_epoch=epoch))


def feature(name: str, level: int = 1) -> FeatureLevel:
    return FeatureLevel(name, level)


def newest(copy: MetadataCopy, high_watermark: int) -> MetadataImage | None:
    deltas = list(copy.deltas(high_watermark))
    return deltas[-1].image if deltas else None


def test_only_committed_batches_are_applied(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.append(batch(0, 3, feature("a"), feature("b")) + batch(2, 3, feature("c")))
    assert copy.end() == EndOfLog(0, 3, 3)
    image = newest(copy, 2)
    assert image is not None
    assert set(image.features) == {"a", "b"}
    assert newest(copy, 2) is None
    image = newest(copy, 3)
    assert image is not None
    assert set(image.features) == {"a", "b", "c"}
    logs.close()


def test_what_the_leader_does_not_have_is_truncated_unless_it_was_applied(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.append(batch(0, 3, feature("a")) + batch(1, 3, feature("lost")) + batch(2, 4, feature("lost too")))
    newest(copy, 1)
    copy.truncate(3, 1)
    assert copy.end() == EndOfLog(0, 1, 3)
    copy.append(batch(1, 5, feature("kept")))
    image = newest(copy, 2)
    assert image is not None
    assert set(image.features) == {"a", "kept"}
    with pytest.raises(WouldLoseCommitted, match="applied 2 records"):
        copy.truncate(3, 1)
    logs.close()


def test_a_snapshot_replaces_the_log_and_the_image(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.append(batch(0, 3, feature("old")))
    newest(copy, 1)
    copy.install(7, 50, encode_snapshot([feature("new")], 7, NOW_MS))
    assert copy.end() == EndOfLog(50, 50, 7)
    image = newest(copy, 50)
    assert image is not None
    assert (set(image.features), image.offset) == ({"new"}, 49)
    copy.append(batch(50, 7, feature("more")))
    logs.close()

    logs = manager(tmp_path)
    again = opened(logs)
    assert again.end() == EndOfLog(50, 51, 7)
    image = newest(again, 51)
    assert image is not None
    assert set(image.features) == {"new", "more"}
    logs.close()


def test_a_damaged_snapshot_of_the_leader_leaves_the_log_as_it_is(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.append(batch(0, 3, feature("old")))
    content = encode_snapshot([feature("new")], 7, NOW_MS)
    for damaged in (content[:-10], b"", content[:80] + bytes([content[80] ^ 1]) + content[81:]):
        with pytest.raises(CorruptMessage, match="is damaged"):
            copy.install(7, 50, damaged)
    assert copy.end() == EndOfLog(0, 1, 3)
    image = newest(copy, 1)
    assert image is not None
    assert set(image.features) == {"old"}
    logs.close()


def test_an_own_snapshot_lets_the_log_before_it_go(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    for offset in range(20):
        copy.append(batch(offset, 3, feature(f"f{offset}")))
    image = newest(copy, 20)
    assert image is not None
    copy.snapshot(image, more_than_bytes=100)
    assert copy.end() == EndOfLog(20, 20, 3)
    copy.append(batch(20, 4, feature("later")))
    logs.close()

    logs = manager(tmp_path)
    again = opened(logs)
    after = newest(again, 21)
    assert after is not None
    assert after.features == {**image.features, "later": 1}
    logs.close()


# The copy ended where its snapshot did -> kill -9 -> it named epoch 0 -> a leader whose log begins earlier answered that the common log
# ends at 0 -> each start of the broker failed with "the controllers lost metadata".
@pytest.mark.parametrize("own", [True, False], ids=["own snapshot", "snapshot of the leader"])
def test_a_copy_that_ends_with_its_snapshot_keeps_the_last_epoch_after_a_crash(tmp_path: Path, own: bool) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    if own:
        copy.append(batch(0, 7, *(feature(f"f{number}") for number in range(20))))
        image = newest(copy, 20)
        assert image is not None
        copy.snapshot(image, more_than_bytes=1)
    else:
        copy.install(7, 20, encode_snapshot([feature("new")], 7, NOW_MS))
    logs.folders.unlock()  # the process is gone, and with it its lock
    logs = manager(tmp_path)
    again = opened(logs)
    assert again.end() == EndOfLog(20, 20, 7)
    logs.close()


def test_records_behind_the_snapshot_go_and_its_epoch_stays(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.install(7, 50, encode_snapshot([feature("new")], 7, NOW_MS))
    copy.append(batch(50, 8, feature("lost")))
    copy.truncate(7, 50)
    assert copy.end() == EndOfLog(50, 50, 7)
    logs.close()


def test_a_leader_that_lacks_what_a_snapshot_has_is_not_followed(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.install(7, 50, encode_snapshot([feature("new")], 7, NOW_MS))
    with pytest.raises(WouldLoseCommitted, match="their log ends at 49, and this broker has applied 50"):
        copy.truncate(6, 60)
    with pytest.raises(WouldLoseCommitted, match="their log ends at 30, and this broker has applied 50"):
        copy.install(8, 30, encode_snapshot([feature("other")], 8, NOW_MS))
    assert copy.end() == EndOfLog(50, 50, 7)
    logs.close()


def test_a_log_without_its_snapshot_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    copy = opened(logs)
    copy.install(7, 50, encode_snapshot([feature("new")], 7, NOW_MS))
    logs.close()
    (snapshot,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[:-5])
    logs = manager(tmp_path)
    with pytest.raises(BrokerStartError, match=r"is damaged.*delete the folder"):
        opened(logs)
    logs.close()
    snapshot.unlink()
    logs = manager(tmp_path)
    with pytest.raises(BrokerStartError, match="is missing; delete the folder"):
        opened(logs)
    logs.close()


@pytest.mark.expects_log("its partitions may refuse records")
@pytest.mark.parametrize(("number", "kind"), [(errno.EMFILE, StorageShortage), (errno.EIO, StorageError)])
def test_a_log_that_cannot_be_read_says_whether_that_passes_and_is_read_on_later(
    tmp_path: Path, number: int, kind: type[StorageError]
) -> None:
    # An error other than for want of a descriptor came out as an OSError, which nobody handled.
    disk = ShortDisk()
    logs = manager(tmp_path, disk)
    copy = opened(logs)
    copy.append(batch(0, 3, feature("a")))
    for log in logs.logs():
        log.close_idle()
        log.segment_list.active.log.close()
    disk.fail(number, lasting=True)
    with pytest.raises(kind) as caught:
        newest(copy, 1)
    assert type(caught.value) is kind
    disk.work()
    image = newest(copy, 1)
    assert image is not None
    assert set(image.features) == {"a"}
    logs.close()
