"""A command that the controller refuses as a whole: the answer has the outcome for each thing that was asked, and nothing else."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import pytest

from streamactors.broker.controller import cluster_command, command, metadata_feed
from streamactors.broker.controller.cluster_command import (
    AssignReplicas,
    Beat,
    ElectLeaders,
    FoldersCordoned,
    FoldersFailed,
    Heartbeat,
    Move,
    ProcessEnded,
    Reassign,
    RegisterBroker,
    RegisterController,
    Registered,
    ReplicasAssigned,
    UnregisterBroker,
    UnregisterController,
)
from streamactors.broker.controller.command import (
    AclFilter,
    AclsDeleted,
    AllocateProducerIds,
    AlterConfigs,
    AlterQuotas,
    AlterScram,
    AutoCreate,
    ChangeToken,
    CreateAcls,
    CreatePartitions,
    CreateToken,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    Outcome,
    QuotaAlteration,
    ResourceChange,
    ScramDeletion,
    ScramUpsert,
    TokenChanged,
    TopicCreated,
    TopicDeleted,
)
from streamactors.broker.controller.metadata_feed import (
    NOBODY,
    AskQuorum,
    ChangeVoters,
    DescribeQuorum,
    QuorumView,
)
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import Answer
from streamactors.broker.quorum.voter_requests import Changed
from streamactors.broker.replication import isr_requests
from streamactors.broker.replication.isr_requests import AlterPartition, PartitionsAltered

NOT = Outcome(ErrorCode.NOT_CONTROLLER, "another node is the controller")
CODE = ErrorCode.NOT_CONTROLLER
ID = uuid.UUID(int=7)
ANY: Any = None

ANSWERS: list[tuple[command.Command, object]] = [
    (CreateTopics((NewTopic("a"), NewTopic("b"))), {"a": TopicCreated(NOT), "b": TopicCreated(NOT)}),
    (AutoCreate(("a", "b")), {"a": TopicCreated(NOT), "b": TopicCreated(NOT)}),
    (DeleteTopics(("a", ID)), [TopicDeleted("a", None, NOT), TopicDeleted(None, ID, NOT)]),
    (CreatePartitions((MorePartitions("a", 2), MorePartitions("b", 3))), {"a": NOT, "b": NOT}),
    (AlterConfigs((ResourceChange(2, "a", ()), ResourceChange(2, "b", ()))), [NOT, NOT]),
    (AllocateProducerIds(), NOT),
    (CreateAcls((ANY, ANY)), [NOT, NOT]),
    (DeleteAcls((AclFilter(1, None, 1, None, None, 1, 1),) * 2), [AclsDeleted(NOT), AclsDeleted(NOT)]),
    (AlterScram("", (ScramDeletion("a", 1),), (ScramUpsert("b", 1, 1, b"", b"", b""),)), {"a": NOT, "b": NOT}),
    (AlterQuotas((QuotaAlteration({"user": "a"}, ()),) * 2), [NOT, NOT]),
    (CreateToken("id", "a", "a", (), 0, 0), TokenChanged(CODE)),
    (ChangeToken("id", "a", 0, 0, True), TokenChanged(CODE)),
    (RegisterBroker(1, "c", ID, (), (), None, ()), Registered(CODE, -1)),
    (Heartbeat(1, 2, 3, False, False), Beat(CODE, False, True, False)),
    (AssignReplicas(1, 2, ((ID, ID, 0),)), ReplicasAssigned(CODE, ())),
    (FoldersFailed(1, (ID,)), NOT),
    (FoldersCordoned(1, (ID,)), NOT),
    (ProcessEnded(1, 2), NOT),
    (AlterPartition(1, 2, (ANY,)), PartitionsAltered(CODE, ())),
    (ElectLeaders((("a", 0), ("b", 1))), [(("a", 0), NOT), (("b", 1), NOT)]),
    (ElectLeaders(None), []),
    (Reassign((Move("a", 0, (1,)), Move("b", 0, None))), [NOT, NOT]),
    (RegisterController(ANY), NOT),
    (UnregisterBroker(1), NOT),
    (UnregisterController(1), NOT),
    (AskQuorum(ANY), Answer(CODE, -1, None)),
    (DescribeQuorum(), QuorumView(CODE, NOBODY, -1, (), ())),
    (ChangeVoters(ANY), Changed(CODE, "another node is the controller")),
]


@pytest.mark.parametrize(("asked", "answer"), ANSWERS, ids=[type(asked).__name__ for asked, _ in ANSWERS])
def test_a_refusal_has_its_outcome_for_everything_that_was_asked(asked: command.Command, answer: object) -> None:
    assert asked.refused(NOT) == answer


def test_every_command_is_here() -> None:
    commands = {
        kind.__name__
        for module in (command, cluster_command, isr_requests, metadata_feed)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and hasattr(kind, "refused") and kind is not command.Command
    }
    assert commands == {type(asked).__name__ for asked, _ in ANSWERS}
