"""A byte of the metadata log that has changed on the disk before a crash: committed metadata is not dropped in silence.

Recovery took every damage for the torn end of the last write: topics, users and settings from there on were gone, and the broker served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.partition.damage import damaged_end
from streamactors.broker.records.batch import iter_batches
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import LiveBroker, batch
from tests.broker.server.test_folder_failures import produced
from tests.broker.server.test_metadata_disk import created, topic
from tests.broker.server.three_controllers import ThreeControllers
from tests.broker.wire import wait_until

LOG = Path("__cluster_metadata-0") / f"{0:020d}.log"


def crashed(folder: Path) -> None:
    """Leave a data folder as a process that was killed does: without the mark of an orderly stop."""
    (folder / ".kafka_cleanshutdown").unlink()


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0x20
    file.write_bytes(content)


def starts(file: Path) -> list[int]:
    """Where each batch begins."""
    content = file.read_bytes()
    return [each.position for each in iter_batches(content)]


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    with LiveBroker(tmp_path) as live:
        for name in ("first", "second", "third"):
            live.create_topic(name)
    crashed(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "where", ["in the middle", "in the last batch", "in a length", "in the last length", "in an offset"]
)
def test_a_broker_on_its_own_refuses_to_start_and_changes_nothing(alone: Path, where: str) -> None:
    file = alone / LOG
    begins = starts(file)
    at = {
        "in the middle": begins[-2] + 70,
        "in the last batch": begins[-1] + 70,
        "in a length": begins[-2] + 10,
        "in the last length": begins[-1] + 10,
        "in an offset": begins[-2] + 7,
    }[where]
    flip(file, at)
    damaged = file.read_bytes()
    for _ in range(2):
        with pytest.raises(
            BrokerStartError, match=rf"__cluster_metadata-0 is damaged at record \d+ .*restore {alone}.* from a copy"
        ):
            LiveBroker(alone).__enter__()
        assert file.read_bytes() == damaged
    flip(file, at)
    with LiveBroker(alone) as live:
        assert set(live.node.metadata.image.topics) == {"first", "second", "third"}


@pytest.mark.expects_log("damaged at offset")
@pytest.mark.parametrize("torn", ["cut", "zeros", "header"])
def test_a_torn_tail_is_still_removed(alone: Path, torn: str) -> None:
    file = alone / LOG
    content, begin = file.read_bytes(), starts(file)[-1]
    (alone / "replication-offset-checkpoint").unlink()  # the write was under way: nothing of it was committed
    ends = {
        "cut": content[: begin + 80],
        "zeros": content[: begin + 80] + bytes(len(content) - begin - 80),
        "header": content[: begin + 20],
    }
    file.write_bytes(ends[torn])
    shutil.rmtree(alone / "third-0")
    with LiveBroker(alone) as live:
        assert {"first", "second"} <= set(live.node.metadata.image.topics)
        live.create_topic("fourth")


def test_a_tail_that_was_committed_is_not_torn() -> None:
    content = batch(b"a")
    assert damaged_end(content[:-5], 7, 7, 3) is None
    assert damaged_end(content[:-5], 7, 8, 3) == (3, 8)


def test_a_broker_copies_damaged_metadata_again_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ThreeBrokers(tmp_path) as cluster:
        with cluster.brokers[1].client() as client:
            for name in ("first", "second"):
                assert client.call(19, 7, topic(name, [2])).topics[0].error_code == 0
        cluster.await_partition("second", lambda each: True, "it is known", seen_by=2)
        with cluster.brokers[2].client() as client:
            wait_until(lambda: produced(client, "first") == 0)
        cluster.stop(2)
        crashed(tmp_path / "2")
        flip(tmp_path / "2" / LOG, starts(tmp_path / "2" / LOG)[3] + 70)
        cluster.join(2)
        assert {"first", "second"} <= set(cluster.brokers[2].node.metadata.image.topics)
        with cluster.brokers[2].client() as client:
            wait_until(lambda: produced(client, "first") == 0)
    (told,) = [each for each in caplog.messages if "copied again from the other nodes" in each]
    assert told.startswith("__cluster_metadata-0 is damaged at record ")


@pytest.mark.slow
def test_a_voter_copies_damaged_metadata_before_it_leads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ThreeControllers(tmp_path) as cluster:
        wait_until(lambda: created(cluster.nodes[1], "first"))
        cluster.await_topic("first")
        stopped = next(node for node in cluster.nodes if node != cluster.leader())
        cluster.stop(stopped)
        folder = tmp_path / str(stopped)
        crashed(folder)
        flip(folder / LOG, starts(folder / LOG)[1] + 70)
        others = list(cluster.nodes)
        cluster.stop(*others)
        cluster.start(stopped, *others)
        cluster.await_topic("first")
        leader = cluster.leader()
        assert "first" in cluster.image(leader).topics
        known = cluster.on_controller(stopped, lambda: cluster.controller(stopped).metadata.known_end)
        assert known == cluster.on_controller(
            stopped,
            lambda: (
                cluster.controller(stopped).metadata.last_epoch,
                cluster.controller(stopped).metadata.end_offset,
            ),
        )
    assert [each for each in caplog.messages if "copied again from the other nodes" in each]
