"""The way to the active controller: objects within the process, requests to another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.controller.cluster_command import AssignReplicas, Heartbeat, RegisterBroker, ReplicasAssigned
from streamactors.broker.controller.command import AllocateProducerIds, CreateTopics, NewTopic, Outcome, TopicCreated
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.controller_channels import ControllerChannels, NoController
from streamactors.broker.membership.controller_wire import FORMS, ForwardAnswer, Forwarded
from streamactors.broker.metadata.metadata_record import Endpoint, Feature
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken
from streamactors.broker.protocol.messages import decode_request, encode_request
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, IsrProposal, PartitionsAltered

ME, OTHER = 1, 2
ADDRESS = ("127.0.0.1", 9_093)
TOPIC, FOLDER = uuid.UUID(int=7), uuid.UUID(int=8)
IDS = AllocateProducerIds((ME, 5))


class Own:
    """The controller of this process. The test gives its answers."""

    active = True

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Callable[[Any], object]]] = []

    def submit(self, command: Any, reply: Callable[[Any], object]) -> None:
        self.asked.append((command, reply))


class Wire:
    """A connection to a controller in another process."""

    peer_features = {"metadata.version": 20}

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, Any]] = []
        self.closed = ""

    def request(self, key: int, version: int, body: Any, then: Callable[[ChannelAnswer], object]) -> None:
        self.sent.append((key, version, body))
        self.then = then

    def close(self, why: str) -> None:
        self.closed = why


class Rig:
    def __init__(self) -> None:
        at_once: Any = SimpleNamespace(execute=lambda fn: fn())
        self.wires: list[Wire] = []
        self.own = Own()
        node: Any = SimpleNamespace(
            node_id=ME, data_plane=at_once, to_controllers=SimpleNamespace(channel=self._channel)
        )
        self.channels = ControllerChannels(node, at_once, self.own)
        self.member = ControllerChannels(node, at_once, NoController())
        self.answers: list[Any] = []

    def _channel(self, *_: object, **__: object) -> Wire:
        self.wires.append(Wire())
        return self.wires[-1]


def test_the_controller_of_this_process_gets_the_command_itself_and_its_answer_comes_back_as_it_is() -> None:
    rig = Rig()
    rig.channels.leader_changed(ME, 3, ADDRESS)
    rig.channels.submit(IDS, rig.answers.append)
    ((asked, reply),) = rig.own.asked
    answer = object()
    reply(answer)
    assert asked is IDS
    assert rig.answers == [answer]
    assert rig.wires == []  # nothing is encoded, and no connection is opened


def test_what_this_process_has_not_answered_is_refused_when_another_controller_leads_and_a_late_answer_is_dropped() -> (
    None
):
    rig = Rig()
    rig.channels.leader_changed(ME, 3, ADDRESS)
    rig.channels.ask(IDS, rig.answers.append)
    rig.channels.leader_changed(OTHER, 4, ADDRESS)
    assert rig.answers == [Outcome(ErrorCode.NOT_CONTROLLER, "another controller leads")]
    rig.own.asked[0][1](object())
    assert len(rig.answers) == 1
    rig.channels.ask(IDS, rig.answers.append)
    assert [each.sent for each in rig.wires] == [[(67, 0, {"broker_id": ME, "broker_epoch": 5})], []]


def test_a_node_without_a_controller_asks_the_one_with_its_id_over_the_network() -> None:
    # A broker and a controller in processes of their own may have been given one id.
    rig = Rig()
    rig.member.leader_changed(ME, 3, ADDRESS)
    rig.member.submit(IDS, rig.answers.append)
    assert [len(each.sent) for each in rig.wires] == [0, 1]


def test_the_features_are_those_of_the_controller_that_is_asked() -> None:
    rig = Rig()
    assert rig.channels.features == {}
    rig.channels.leader_changed(OTHER, 3, ADDRESS)
    assert rig.channels.features == {"metadata.version": 20}


def test_a_forwarded_request_is_served_in_this_process() -> None:
    rig = Rig()
    served: list[Callable[[ForwardAnswer], object]] = []
    forwarded = Forwarded(b"request", b"User:a", b"\x7f\0\0\1", served.append)
    rig.channels.leader_changed(ME, 3, ADDRESS)
    rig.channels.submit(forwarded, rig.answers.append)
    served[0](ForwardAnswer(ErrorCode.NOT_CONTROLLER))
    assert rig.answers == [ForwardAnswer(ErrorCode.NOT_CONTROLLER)]
    assert rig.own.asked == []


COMMANDS = [
    CreateTopics((NewTopic("t", 3, 2, configs=(("cleanup.policy", "compact"),)),)),
    AlterPartition(ME, 5, (IsrProposal(TOPIC, 0, 4, 6, ((1, 5), (2, 9))), IsrProposal(TOPIC, 1, 4, 6, ((1, 5),)))),
    Forwarded(b"request", b"User:a", b"\x7f\0\0\1", lambda _: None),
    RegisterBroker(ME, "c", TOPIC, (Endpoint("PLAINTEXT", "h", 1),), (Feature("f", 0, 1),), "r", (FOLDER,), 4),
    Heartbeat(ME, 5, 77, want_fence=True, want_shut_down=False, offline=(FOLDER,)),
    IDS,
    AssignReplicas(ME, 5, ((FOLDER, TOPIC, 0), (FOLDER, TOPIC, 1))),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: type(each).__name__)
def test_every_command_of_a_broker_has_a_request_that_can_be_encoded(command: Any) -> None:
    form = FORMS[type(command)]
    body = form.body(command)
    decoded = decode_request(*form.api, memoryview(encode_request(*form.api, body)))
    assert all(hasattr(decoded, name) for name in body)


def test_an_answer_names_its_proposals_in_their_order_and_one_without_an_answer_is_asked_again() -> None:
    command = COMMANDS[1]
    assert isinstance(command, AlterPartition)
    partition = SimpleNamespace(
        partition_index=1,
        error_code=0,
        leader_id=1,
        leader_epoch=4,
        isr=[1],
        partition_epoch=7,
        leader_recovery_state=0,
    )
    value = SimpleNamespace(error_code=0, topics=[SimpleNamespace(topic_id=TOPIC, partitions=[partition])])
    there = IsrOutcome(ErrorCode.NONE, 1, 4, (1,), 7)
    missing = IsrOutcome(ErrorCode.NOT_CONTROLLER)
    assert FORMS[AlterPartition].answer(command, value) == PartitionsAltered(ErrorCode.NONE, (missing, there))


def test_the_folders_and_topics_of_an_answer_are_those_of_the_command() -> None:
    folder = SimpleNamespace(
        id_=FOLDER,
        topics=[SimpleNamespace(topic_id=TOPIC, partitions=[SimpleNamespace(partition_index=1, error_code=87)])],
    )
    answer = FORMS[AssignReplicas].answer(COMMANDS[-1], SimpleNamespace(error_code=0, directories=[folder]))
    assert answer == ReplicasAssigned(ErrorCode.NONE, (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_RECORD))
    topic = SimpleNamespace(
        name="t", error_code=36, error_message="there", topic_id=TOPIC, num_partitions=3, replication_factor=2
    )
    created = FORMS[CreateTopics].answer(COMMANDS[0], SimpleNamespace(topics=[topic]))
    assert created == {"t": TopicCreated(Outcome(ErrorCode.TOPIC_ALREADY_EXISTS, "there"), TOPIC, 3, 2)}


def test_a_request_without_an_answer_is_the_refusal_of_its_command() -> None:
    rig = Rig()
    rig.channels.leader_changed(OTHER, 3, ADDRESS)
    rig.channels.submit(IDS, rig.answers.append)
    rig.wires[-1].then(ChannelAnswer(error=ChannelBroken("it did not answer in time")))
    assert rig.answers == [Outcome(ErrorCode.NOT_CONTROLLER, "it did not answer in time")]
