"""What a broker tells the controller of its data folders, and when."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streamactors.broker.controller.cluster_command import AssignReplicas
from streamactors.broker.metadata.metadata_record import PartitionRecord
from streamactors.broker.server.folder_assignments import FolderAssignments

TOPIC, FOLDER = uuid.UUID(int=1), uuid.UUID(int=2)


def test_a_broker_assigns_replicas_in_the_epoch_of_its_own_registration_and_waits_for_that() -> None:
    # A broker that starts reads the metadata of its earlier process first. It asked in the epoch of that one, and warned that it was refused.
    later: list[Callable[[], object]] = []
    asked: list[AssignReplicas] = []
    partition = SimpleNamespace(log=SimpleNamespace(directory=Path("/data/copied-0")), topic_id=TOPIC)
    earlier = SimpleNamespace(brokers={3: SimpleNamespace(broker_epoch=4)})
    replication = SimpleNamespace(broker_epoch=-1)
    node: Any = SimpleNamespace(
        node_id=3,
        replication=replication,
        partitions=SimpleNamespace(get=lambda *where: partition),
        logs=SimpleNamespace(directory_of=lambda log: FOLDER),
        metadata=SimpleNamespace(image=earlier),
        data_plane=SimpleNamespace(call_later=lambda delay_ms, call: later.append(call)),
        active_controller=SimpleNamespace(submit=lambda command, reply: asked.append(command)),
    )
    record = PartitionRecord(0, TOPIC, (3,), (3,), leader=3, leader_epoch=0, partition_epoch=0)
    assignments = FolderAssignments(node)
    changed = SimpleNamespace(name="copied", topic_id=TOPIC, partitions=(record,))
    assignments._changed(SimpleNamespace(deleted=(), created=(changed,), changed=()))  # type: ignore[arg-type]
    later.pop()()
    assert asked == []
    replication.broker_epoch = 9
    later.pop()()
    assert asked == [AssignReplicas(3, 9, ((FOLDER, TOPIC, 0),))]
