"""The controller and its quorum: what is not committed is not published, and is taken back when another node takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.controller.command import CreateTopics, NewTopic, TopicCreated
from streamactors.broker.controller.controller import Controller
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.errors import ErrorCode
from streamactors.broker.helpers import call_on
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.metadata_record import FeatureLevel
from streamactors.broker.metadata.transaction_record import BeginTransaction
from streamactors.broker.quorum.quorum import Quorum
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient

QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def described(broker: LiveBroker) -> Any:
    return broker.client().call(55, 2, QUORUM).topics[0].partitions[0]


def test_every_start_leads_in_a_new_epoch(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        with LiveBroker(tmp_path) as broker:
            seen = described(broker)
            assert (seen.leader_id, seen.leader_epoch) == (broker.node.node_id, epoch)
            assert [each.replica_id for each in seen.current_voters] == [broker.node.node_id]
            assert seen.high_watermark == broker.node.metadata.image.offset + 1
    assert (tmp_path / "__cluster_metadata-0" / "quorum-state").exists()


def test_a_folder_without_a_vote_file_goes_on_behind_the_epoch_of_its_log(tmp_path: Path) -> None:
    # A folder of a version that wrote no vote file: its records have epoch 1, and a second leader of epoch 1 must not exist.
    with LiveBroker(tmp_path) as broker:
        broker.create_topic("t")
    (tmp_path / "__cluster_metadata-0" / "quorum-state").unlink()
    with LiveBroker(tmp_path) as broker:
        assert described(broker).leader_epoch == 2
        assert set(broker.node.metadata.image.topics) == {"t"}


def test_a_transaction_that_an_earlier_controller_did_not_end_is_aborted(tmp_path: Path) -> None:
    with LiveBroker(tmp_path):
        pass
    logs = LogManager(tmp_path, default_config=LogConfig(), clock_ms=lambda: 0)
    logs.open()
    log = MetadataLog.open(logs, lambda: 0)
    log.append([BeginTransaction(), FeatureLevel("lost", 1)], 1)
    log.sync()
    logs.close()
    for _ in range(2):
        with LiveBroker(tmp_path) as broker:
            assert "lost" not in broker.node.metadata.image.features
            broker.create_topic(f"t{broker.node.metadata.image.offset}")
    with LiveBroker(tmp_path) as broker:
        assert len(broker.node.metadata.image.topics) == 2


def test_a_damaged_vote_file_stops_the_start_and_is_named(tmp_path: Path) -> None:
    with LiveBroker(tmp_path):
        pass
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text("{")
    with pytest.raises(Exception, match="quorum-state cannot be read"):
        LiveBroker(tmp_path).__enter__()


# --- a change that waits for other voters ---


class Waiting:
    """Holds the records of a controller back, as a quorum does whose other voters do not answer."""

    def __init__(self, broker: LiveBroker, patch: pytest.MonkeyPatch) -> None:
        controller = broker.node.controller
        assert isinstance(controller, Controller)
        self.controller = controller
        self.broker = broker
        self.held: list[list[Any]] = []
        self.append = Quorum.append
        self.patch = patch
        patch.setattr(Quorum, "append", lambda _, records: self.hold(records))

    def hold(self, records: Iterable[Any]) -> int:
        self.held.append(list(records))
        return -1

    def on_thread(self, call: Callable[[], Any]) -> Any:
        return call_on(self.controller._dispatcher, call)

    def commit(self) -> None:
        """The other voters have the records."""
        self.patch.undo()
        quorum = self.controller._quorum
        for records in self.held:
            self.on_thread(lambda records=records: quorum.append(records))

    def lose(self) -> None:
        """Another node leads."""
        self.on_thread(lambda: self.controller.leader_changed(2, 9))


def create_later(client: WireClient, name: str) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    client.send(19, 7, {"topics": [topic], "timeout_ms": 30_000})


def test_a_change_is_published_when_it_is_committed_and_the_next_command_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker:
        waiting, client = Waiting(broker, monkeypatch), broker.client()
        create_later(client, "a")
        create_later(client, "b")
        other = broker.client()  # a request that changes nothing is answered on the way
        assert other.call(3, 12, {"topics": None}).topics == ()
        while not waiting.held:
            waiting.on_thread(lambda: None)
        assert waiting.on_thread(lambda: waiting.controller.writing)
        assert broker.node.metadata.image.topics == {}
        waiting.commit()
        answers = [client.receive()[1].topics[0] for _ in range(2)]
        assert [(each.name, each.error_code) for each in answers] == [("a", 0), ("b", 0)]
        assert set(broker.node.metadata.image.topics) == {"a", "b"}


def test_a_change_that_is_not_committed_is_taken_back_when_another_node_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker:
        waiting, client = Waiting(broker, monkeypatch), broker.client()
        before = broker.node.metadata.image
        create_later(client, "lost")
        create_later(client, "later")
        while not waiting.held:
            waiting.on_thread(lambda: None)
        assert (tmp_path / "lost-0").exists()  # made before the records, so that a full disk refuses the topic
        waiting.lose()
        for _ in range(2):
            assert client.receive()[1].topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert len(waiting.held) == 1
        assert waiting.controller._newest is broker.node.metadata.image is before
        assert not (tmp_path / "lost-0").exists()
        outcomes: list[dict[str, TopicCreated]] = []
        waiting.on_thread(
            lambda: waiting.controller._serve(CreateTopics((NewTopic("more"),)), outcomes.append)  # type: ignore[call-arg]
        )
        broker.on_data_plane(lambda: None)
        assert [each.outcome.code for each in outcomes[0].values()] == [ErrorCode.NOT_CONTROLLER]
