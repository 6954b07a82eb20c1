"""A bug of the control plane: the client gets an answer, and the next request works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.apis import (
    api00_produce,
    api08_offset_commit,
    api09_offset_fetch,
    api12_heartbeat,
    api15_describe_groups,
    api19_create_topics,
    api22_init_producer_id,
    api24_add_partitions_to_txn,
)
from streamactors.broker.controller import controller
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import offset_requests
from streamactors.broker.requests.request import Request
from streamactors.broker.transaction import transaction_shard
from tests.broker.apis.group_client import commit, fetch
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.wire import WireClient, await_coordinator

pytestmark = pytest.mark.expects_log("<Request key", "is read again ")


E = ErrorCode
NEW_TOPIC = {"num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}


def break_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Have the next call of a function raise."""
    right = getattr(module, name)

    def broken(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(module, name, right)
        raise RuntimeError(f"{name} is broken")

    monkeypatch.setattr(module, name, broken)


def break_for_good(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Have every call of a function raise."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name} is broken")

    monkeypatch.setattr(module, name, broken)


def create(client: WireClient, name: str) -> tuple[int, str | None]:
    answer = client.call(19, 7, {"topics": [{"name": name, **NEW_TOPIC}], "timeout_ms": 30_000})
    return answer.topics[0].error_code, answer.topics[0].error_message


def topics(client: WireClient) -> set[str]:
    return {topic.name for topic in client.call(3, 12, {"topics": None}).topics}


def test_a_commit_that_breaks_the_group_coordinator_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("t")
        await_coordinator(client, "g", 0)
        assert commit(client, "g", "t") == [0]
        break_once(monkeypatch, offset_requests, "encode_offset_value")
        assert commit(client, "g", "t") == [E.UNKNOWN_SERVER_ERROR]
        while (answer := commit(client, "g", "t")) == [E.COORDINATOR_LOAD_IN_PROGRESS]:
            pass
        assert answer == [0]
        assert fetch(client, "g", "t") == [(7, 0)]


def test_a_producer_that_breaks_the_transaction_coordinator_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "tx", 1)
        body = {"transactional_id": "tx", "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
        assert client.call(22, 4, body).producer_epoch == 0
        break_once(monkeypatch, transaction_shard, "step")
        assert client.call(22, 4, body).error_code == E.UNKNOWN_SERVER_ERROR
        while (answer := client.call(22, 4, body)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert (answer.error_code, answer.producer_epoch) == (0, 1)


def test_a_plan_that_raises_refuses_its_command_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        assert create(client, "before") == (0, None)
        break_once(monkeypatch, controller, "plan")
        code, message = create(client, "lost")
        assert (code, message) == (E.UNKNOWN_SERVER_ERROR, "RuntimeError: plan is broken")
        assert create(client, "after") == (0, None)
        assert topics(client) == {"before", "after"}


def test_a_change_that_cannot_be_published_is_published_again_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        assert create(client, "old") == (0, None)
        break_once(monkeypatch, broker.node.partitions, "apply")
        assert create(client, "new")[0] == E.UNKNOWN_SERVER_ERROR
        assert topics(client) == {"old", "new"}  # its records are in the log
        produced = client.call(0, 9, produce_body(batch(b"x"), topic="new"))
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert create(client, "new")[0] == E.TOPIC_ALREADY_EXISTS


def test_a_deletion_that_cannot_be_published_is_published_again_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        assert create(client, "old") == (0, None)
        break_once(monkeypatch, broker.node.partitions, "delete")
        gone = {"topics": [{"name": "old", "topic_id": None}], "timeout_ms": 1_000}
        assert client.call(20, 6, gone).responses[0].error_code == E.UNKNOWN_SERVER_ERROR
        assert topics(client) == set()
        assert broker.node.partitions.get("old", 0) is None
        assert create(client, "old") == (0, None)


# ---- a handler whose reply function raises: the client once got no answer, and the coordinator was restarted for it ----


def test_a_commit_whose_reply_raises_is_answered_and_the_coordinator_keeps_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("t")
        await_coordinator(client, "g", 0)
        with monkeypatch.context() as broken:
            break_for_good(broken, api08_offset_commit, "by_topic")
            assert commit(client, "g", "t") == [E.UNKNOWN_SERVER_ERROR]
        assert commit(client, "g", "t") == [0]  # not COORDINATOR_LOAD_IN_PROGRESS


def test_a_heartbeat_whose_reply_raises_is_answered_and_logged_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        await_coordinator(client, "g", 0)
        beat = {"group_id": "g", "member_id": "m", "group_instance_id": None, "generation_id": 1}
        assert client.call(12, 3, beat).error_code == E.UNKNOWN_MEMBER_ID
        break_for_good(monkeypatch, api12_heartbeat, "_body")
        for _ in range(3):  # each was a traceback in the log
            assert client.call(12, 3, beat).error_code == E.UNKNOWN_SERVER_ERROR
    (line,) = caplog.messages
    assert line.startswith("<Request key 12 ")


@pytest.mark.parametrize("step", ["encode", "refuse"])
def test_answers_that_cannot_be_made_are_logged_once_a_second_for_all_clients(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    beat = {"group_id": "g", "member_id": "m", "group_instance_id": None, "generation_id": 1}
    with LiveBroker(tmp_path) as broker:
        with broker.client() as client:
            await_coordinator(client, "g", 0)
        if step == "refuse":
            break_for_good(monkeypatch, Request, "has_field")
            break_for_good(monkeypatch, api12_heartbeat, "_body")
        else:
            monkeypatch.setattr(api12_heartbeat, "_body", lambda *_: {"error_code": "no number"})
        for _ in range(3):  # each closes its connection
            with broker.client() as client, pytest.raises(ConnectionError):
                client.call(12, 3, beat)
    ours = [line for line in caplog.messages if line.startswith("<Request")]
    assert [line.partition(">")[2].partition("(")[0] for line in ours] == {
        "encode": [": its answer cannot be encoded"],
        "refuse": [" failed", ": refusing it with UNKNOWN_SERVER_ERROR failed"],
    }[step]


def test_offsets_and_descriptions_of_groups_are_answered_though_the_reply_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("t")
        await_coordinator(client, "g", 0)
        assert commit(client, "g", "t") == [0]
        break_for_good(monkeypatch, api09_offset_fetch, "_by_topic")
        break_for_good(monkeypatch, api15_describe_groups, "_describe")
        offsets = {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}
        assert client.call(9, 8, offsets).groups[0].error_code == E.UNKNOWN_SERVER_ERROR
        described = client.call(15, 5, {"groups": ["g"], "include_authorized_operations": False})
        assert described.groups[0].error_code == E.UNKNOWN_SERVER_ERROR


def test_requests_of_a_transactional_producer_are_answered_though_the_reply_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("t")
        await_coordinator(client, "tx", 1)
        init = {"transactional_id": "tx", "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
        producer = client.call(22, 4, init)
        with monkeypatch.context() as broken:
            break_for_good(broken, api22_init_producer_id, "for_old_clients")
            assert client.call(22, 4, init).error_code == E.UNKNOWN_SERVER_ERROR
        break_for_good(monkeypatch, api24_add_partitions_to_txn, "for_old_clients")
        add = {
            "v3_and_below_transactional_id": "tx",
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        }
        (topic,) = client.call(24, 3, add).results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == E.UNKNOWN_SERVER_ERROR


def test_a_created_topic_whose_reply_raises_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        break_for_good(monkeypatch, api19_create_topics, "_result")
        assert create(client, "new")[0] == E.UNKNOWN_SERVER_ERROR
        assert topics(client) == {"new"}


def test_a_produce_whose_reply_raises_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        broker.create_topic("t", flush_messages=1)
        break_for_good(monkeypatch, api00_produce, "_settled")
        client.send(0, 9, produce_body(batch(b"x"), topic="t"))
        assert client.closed_by_peer()  # the producer sends again; an answer without the partition would let it wait
