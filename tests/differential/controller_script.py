"""What a broker asks its controller, by raw requests: right ones, and every wrong one that the protocol has an error for.

Broker 7 exists in these requests only. It registers, is unfenced, and leads partition 0 of the topic `t`, which broker 1 follows."""

from __future__ import annotations

import uuid
from typing import Any, Final

from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from streamactors.broker.requests.forwarding import principal_data
from tests.broker.wire import WireClient

FAKE, REAL, NOBODY = 7, 1, 99
CAUGHT_UP: Final = 1_000_000
INCARNATION, FOLDER, STRANGE = (uuid.UUID(int=number) for number in (4711 << 64, 4712 << 64, 4713 << 64))
REGISTER, BEAT, ALTER, IDS, DIRS, ENVELOPE, SNAPSHOT = (62, 4), (63, 1), (56, 3), (67, 0), (73, 0), (58, 0), (59, 1)
FEATURES: Final = [
    {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 33},
    *(
        {"name": name, "min_supported_version": 0, "max_supported_version": level}
        for name, level in default_levels().items()
        if name != "metadata.version"
    ),
]


class Conversation:
    """Sends the script to one controller; `told` are its answers by step."""

    def __init__(self, controller: WireClient, broker: WireClient) -> None:
        self._controller = controller
        self._broker = broker
        self.told: dict[str, Any] = {}
        self.cluster_id = broker.call(60, 0, {"include_cluster_authorized_operations": False}).cluster_id
        self.epoch = -1  # of broker 7
        self.real_epoch = -1
        self.topic_id = uuid.UUID(int=0)
        self.leader_epoch = 0  # of the metadata log

    def ask(self, name: str, api: tuple[int, int], body: dict[str, Any]) -> Any:
        answer = self.told[name] = self._controller.call(*api, body)
        if self.epoch >= 0:  # the session must not end
            self._controller.call(*BEAT, self.beat())
        return answer

    def beat(self, **changes: Any) -> dict[str, Any]:
        body = {
            "broker_id": FAKE,
            "broker_epoch": self.epoch,
            "current_metadata_offset": CAUGHT_UP,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": (),
        }
        return {**body, **changes}

    def play(self) -> dict[str, Any]:
        self.register()
        self.heartbeats()
        self.producer_ids()
        self.folders()
        self.isr()
        self.envelopes()
        self.snapshots()
        return self.told

    def register(self) -> None:
        body = {
            "broker_id": FAKE,
            "cluster_id": self.cluster_id,
            "incarnation_id": INCARNATION,
            "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1, "security_protocol": 0}],
            "features": FEATURES,
            "rack": None,
            "is_migrating_zk_broker": False,
            "log_dirs": [FOLDER],
            "previous_broker_epoch": -1,
        }
        low = [{**FEATURES[0], "max_supported_version": 18}, *FEATURES[1:]]
        self.ask("register with another cluster", REGISTER, {**body, "cluster_id": "x"})
        self.ask("register without features", REGISTER, {**body, "features": ()})
        self.ask("register with a low feature", REGISTER, {**body, "features": low})
        self.ask("register without folders", REGISTER, {**body, "log_dirs": ()})
        self.ask("register with a folder twice", REGISTER, {**body, "log_dirs": [FOLDER, FOLDER]})
        self.ask("register with a reserved folder", REGISTER, {**body, "log_dirs": [uuid.UUID(int=1)]})
        epoch = self.ask("register", REGISTER, body).broker_epoch
        again = self.ask("register again", REGISTER, body).broker_epoch
        assert epoch == again > 0
        self.epoch = epoch
        self.ask("unfence", BEAT, self.beat())
        self.ask("register another process", REGISTER, {**body, "incarnation_id": STRANGE, "log_dirs": [STRANGE]})
        self.ask("register with another's folder", REGISTER, {**body, "broker_id": 8, "incarnation_id": STRANGE})

    def heartbeats(self) -> None:
        self.ask("beat of nobody", BEAT, self.beat(broker_id=NOBODY))
        self.ask("beat of an older epoch", BEAT, self.beat(broker_epoch=self.epoch - 1))
        self.ask("beat of a newer epoch", BEAT, self.beat(broker_epoch=self.epoch + 1))
        self.ask("beat", BEAT, self.beat())

    def producer_ids(self) -> None:
        self.ask("ids for nobody", IDS, {"broker_id": NOBODY, "broker_epoch": 1})
        self.ask("ids for an older epoch", IDS, {"broker_id": FAKE, "broker_epoch": self.epoch - 1})
        self.ask("ids", IDS, {"broker_id": FAKE, "broker_epoch": self.epoch})

    def isr(self) -> None:
        partition = {
            "partition_index": 0,
            "leader_epoch": 0,
            "leader_recovery_state": 0,
            "partition_epoch": 0,
        }
        fenced = self._controller.call(*REGISTER, self._third())

        def alter(
            name: str, *isr: tuple[int, int], broker_epoch: int | None = None, topic: Any = None, **of: Any
        ) -> None:
            members = [{"broker_id": each, "broker_epoch": epoch} for each, epoch in isr]
            wanted = {**partition, "new_isr_with_epochs": members, **of}
            topics = [{"topic_id": topic or self.topic_id, "partitions": [wanted]}]
            epoch = self.epoch if broker_epoch is None else broker_epoch
            self.ask(name, ALTER, {"broker_id": FAKE, "broker_epoch": epoch, "topics": topics})

        me, other = (FAKE, self.epoch), (REAL, -1)
        alter("isr of an older broker epoch", me, broker_epoch=self.epoch - 1)
        alter("isr of an unknown topic", me, topic=STRANGE)
        alter("isr of an unknown partition", me, partition_index=5)
        alter("isr of an older leader epoch", me, leader_epoch=-1)
        alter("isr of a newer leader epoch", me, leader_epoch=1)
        alter("isr of an older partition epoch", me, partition_epoch=-1)
        alter("isr of a newer partition epoch", me, partition_epoch=1)
        alter("isr with a stranger", me, (NOBODY, -1))
        alter("isr without members")
        alter("isr without its leader", other)
        alter("isr while recovering", me, other, leader_recovery_state=1)
        alter("isr with an older epoch of its leader", (FAKE, self.epoch - 1), other)
        alter("isr with a fenced member", me, (8, fenced.broker_epoch))
        alter("isr as it is", me, other)
        alter("isr without the follower", me)
        alter("isr without the follower again", me)
        alter("isr with the follower", me, other, partition_epoch=1)

    def _third(self) -> dict[str, Any]:
        return {
            "broker_id": 8,
            "cluster_id": self.cluster_id,
            "incarnation_id": STRANGE,
            "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 2, "security_protocol": 0}],
            "features": FEATURES,
            "rack": None,
            "is_migrating_zk_broker": False,
            "log_dirs": [STRANGE],
            "previous_broker_epoch": -1,
        }

    def folders(self) -> None:
        self._create("t")
        topics = [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0}]}]

        def assign(name: str, folder: uuid.UUID, epoch: int, topics: Any = topics) -> None:
            directories = [{"id_": folder, "topics": topics}]
            self.ask(name, DIRS, {"broker_id": FAKE, "broker_epoch": epoch, "directories": directories})

        assign("folder of an older epoch", FOLDER, self.epoch - 1)
        assign("its folder", FOLDER, self.epoch)
        assign("folder of an unknown topic", FOLDER, self.epoch, [{**topics[0], "topic_id": STRANGE}])
        unknown = [{**topics[0], "partitions": [{"partition_index": 9}]}]
        assign("folder of an unknown partition", FOLDER, self.epoch, unknown)

    def _create(self, name: str) -> None:
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [FAKE, REAL]}],
            "configs": (),
        }
        answer = self._controller.call(19, 7, {"topics": [topic], "timeout_ms": 9_000, "validate_only": False})
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        self.topic_id = answer.topics[0].topic_id

    def envelopes(self) -> None:
        def send(name: str, key: int, version: int, body: dict[str, Any], **changes: Any) -> None:
            frame = request_frame(key, version, 7, "inner", encode_request(key, version, body))[4:]
            whole = {
                "request_data": frame,
                "request_principal": principal_data("User", "ANONYMOUS"),
                "client_host_address": bytes([127, 0, 0, 1]),
            }
            self.ask(name, ENVELOPE, {**whole, **changes})

        create = {"topics": (), "timeout_ms": 9_000, "validate_only": False}
        send("envelope", 19, 7, create)
        send("envelope without a principal", 19, 7, create, request_principal=None)
        send("envelope around what is not forwarded", 3, 12, {"topics": None})
        send("envelope around a heartbeat", *BEAT, self.beat())

    def _metadata_epoch(self) -> int:
        asked = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        answer = self._controller.call(55, 2, {"topics": [asked]})
        epoch: int = answer.topics[0].partitions[0].leader_epoch
        return epoch

    def snapshots(self) -> None:
        def fetch(
            name: str, epoch: int, end: int, position: int = 0, topic: str = "__cluster_metadata", **of: Any
        ) -> Any:
            wanted = {
                "partition": 0,
                "current_leader_epoch": epoch,
                "snapshot_id": {"end_offset": end, "epoch": 1},
                "position": position,
            }
            topics = [{"name": topic, "partitions": [wanted]}]
            body = {"cluster_id": self.cluster_id, "replica_id": FAKE, "max_bytes": 9_000, "topics": topics}
            return self.ask(name, SNAPSHOT, {**body, **of})

        fetch("snapshot of an older epoch", 0, 1)
        epoch = self._metadata_epoch()
        fetch("snapshot of a newer epoch", epoch + 1, 1)
        fetch("snapshot that does not exist", epoch, 12_345)
        fetch("snapshot of another cluster", epoch, 1, cluster_id="x")
        fetch("snapshot of another topic", epoch, 1, topic="other")
