"""Fetch sessions over the wire. `tests/differential/test_fetch_sessions.py` plays the same steps beside Apache Kafka."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from tests.broker.apis.fetching import fill, live_broker, live_client, new_topic  # noqa: F401  # fixtures
from tests.broker.live_broker import LiveBroker, fetch_body
from tests.broker.wire import WireClient, wait_until
from tests.differential.session_script import PARTITIONS, Conversation

OPEN_PARTITIONS = dict.fromkeys(range(3), (0, 0, 0, False))


def test_the_steps_of_a_session(broker: LiveBroker, client: WireClient) -> None:
    broker.create_topic("sessions", PARTITIONS)
    told = dict(Conversation(client).play())
    assert told["a session that is not there"] == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "none", {})
    assert told["open"] == (0, "a new one", OPEN_PARTITIONS)
    assert told["nothing is new"] == (0, "the same", {})
    assert told["records"] == told["the same records again"] == (0, "the same", {1: (0, 2, 0, True)})
    assert told["the client has them"] == (0, "the same", {})
    assert told["a partition more"] == (0, "the same", {3: (0, 0, 0, False)})
    assert told["two of four"] == (0, "the same", {0: (0, 1, 0, True), 3: (0, 1, 0, True)})
    assert told["the forgotten one says nothing"] == (0, "the same", {})
    assert told["still out of range"] == told["out of range"]
    assert told["in range again"] == (0, "the same", {2: (0, 0, 0, False)})
    assert told["an epoch again"] == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, "none", {})
    assert told["with topic ids"] == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "none", {})
    first, second = (told[f"one at a time, the {which}"][2] for which in ("first", "second"))
    assert sorted(index for said in (first, second) for index, each in said.items() if each[3]) == [0, 1]
    assert told["it has ended"] == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "none", {})
    assert told["replace it"] == (0, "a new one", {0: (0, 2, 0, False)})
    assert told["the other partition is not in it"] == (0, "the same", {})


def test_a_fetch_of_a_session_that_waits_is_woken_by_a_partition_that_it_does_not_name(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    conversation = Conversation(client, topic)
    conversation.fetch(0, dict.fromkeys(range(3), 0))
    conversation.fetch(1)
    body = {**fetch_body(max_wait_ms=60_000), "topics": [], "session_id": conversation.id}
    with broker.client() as producer:
        for epoch, index in ((2, 2), (3, 1)):
            client.send(1, 12, {**body, "session_epoch": epoch})
            if epoch == 2:
                wait_until(lambda: broker.node.fetch_purgatory.delayed == 1)
            fill(producer, topic, 1, partition=index)
            answer = client.receive()[1]
            assert 2 in [each.partition_index for each in answer.responses[0].partitions]


def test_a_log_start_that_moves_is_told(broker: LiveBroker, client: WireClient, topic: str) -> None:
    conversation = Conversation(client, topic)
    fill(client, topic, 3)
    conversation.fetch(0, {0: 3, 1: 0})
    conversation.fetch(1)
    conversation.delete_before(0, 2)
    session = broker.node.fetch_sessions.get(conversation.id)
    assert session is not None
    session.swept_ms = 0.0  # it is looked for twice a second
    assert conversation.fetch(2) == (0, "the same", {0: (0, 3, 2, False)})
    assert conversation.fetch(3) == (0, "the same", {})


def test_a_topic_that_is_deleted_and_made_again_is_told_each_time(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    conversation = Conversation(client, topic)
    conversation.fetch(0, {0: 0})
    conversation.fetch(1)
    client.call(20, 4, {"topic_names": [topic], "timeout_ms": 10_000})
    assert conversation.fetch(2)[2][0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert conversation.fetch(3)[2][0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic(topic)
    assert conversation.fetch(4)[2] == {0: (0, 0, 0, False)}
    assert conversation.fetch(5)[2] == {}
    fill(client, topic, 1)
    assert conversation.fetch(6)[2] == {0: (0, 1, 0, True)}


def test_a_client_that_sends_its_next_fetch_without_the_answer_hears_that_the_session_has_gone_on(
    broker: LiveBroker, client: WireClient, topic: str
) -> None:
    conversation = Conversation(client, topic)
    conversation.fetch(0, {0: 0})
    conversation.fetch(1)
    body = {**fetch_body(max_wait_ms=60_000), "topics": [], "session_id": conversation.id, "session_epoch": 2}
    client.send(1, 12, body)
    wait_until(lambda: broker.node.fetch_purgatory.delayed == 1)
    with broker.client() as other:
        same = Conversation(other, topic)
        same.id = conversation.id
        assert same.fetch(3) == (0, "the same", {})
        fill(other, topic, 1)
    assert client.receive()[1].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
