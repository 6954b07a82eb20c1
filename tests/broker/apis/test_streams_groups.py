"""Streams groups (KIP-1071) over the wire: tasks, internal topics, description, restart, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until

SETTINGS = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
STARTING = (14, 15, 16)


def internal(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    pairs = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": pairs}


def part(name: str, **parts: Any) -> dict[str, Any]:
    empty = ("source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics")
    more = ("repartition_source_topics", "copartition_groups")
    return {"subtopology_id": name, **{key: [] for key in (*empty, *more)}, **parts}


COUNT = {
    "epoch": 1,
    "subtopologies": [
        part("0", source_topics=["in"], repartition_sink_topics=["app-r"]),
        part(
            "1",
            repartition_source_topics=[internal("app-r", retention_ms="-1")],
            state_changelog_topics=[internal("app-log", cleanup_policy="compact")],
        ),
    ],
}


def beat(client: WireClient, member: str, epoch: int, version: int = 1, **changed: Any) -> Any:
    body = {
        "group_id": "app",
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "rebalance_timeout_ms": -1,
        "shutdown_application": False,
        **changed,
    }
    nulls = ("instance_id", "rack_id", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id")
    for name in (*nulls, "user_endpoint", "client_tags", "task_offsets", "task_end_offsets"):
        body.setdefault(name, None)
    client.call(10, 4, {"key_type": 0, "coordinator_keys": ["app"]})
    while (answer := client.call(88, version, body)).error_code in STARTING:
        pass
    return answer


def join(
    client: WireClient, member: str, process: str = "p", topology: Mapping[str, Any] = COUNT, **changed: Any
) -> Any:
    tasks: dict[str, Any] = {name: [] for name in ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags")}
    return beat(
        client, member, 0, topology=topology, process_id=process, **{"rebalance_timeout_ms": 30_000, **tasks, **changed}
    )


def active(answer: Any) -> dict[str, tuple[int, ...]]:
    return {each.subtopology_id: tuple(each.partitions) for each in answer.active_tasks or ()}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, SETTINGS) as live:
        live.create_topic("in", 3)
        yield live


def works(client: WireClient, live: LiveBroker) -> Any:
    """Let the first member join, until it has tasks."""
    first = join(client, "m1")
    assert [status.status_code for status in first.status] == [3]
    assert first.status[0].status_detail == "Internal topics are missing: app-r, app-log"
    wait_until(lambda: {"app-r", "app-log"} <= live.node.metadata.image.topics.keys())
    return beat(client, "m1", first.member_epoch)


def test_a_member_gets_its_tasks_when_the_internal_topics_are_there(broker: LiveBroker) -> None:
    with broker.client() as client:
        answer = works(client, broker)
        assert active(answer) == {"0": (0, 1, 2), "1": (0, 1, 2)}
        assert answer.status == ()
        image = broker.node.metadata.image
        assert [len(image.topics[name].partitions) for name in ("app-r", "app-log")] == [3, 3]
        assert image.topic_overrides("app-r") == {"retention.ms": "-1"}
        assert image.topic_overrides("app-log") == {"cleanup.policy": "compact"}


def test_a_second_instance_gets_tasks_when_the_first_gives_them_back(broker: LiveBroker) -> None:
    with broker.client() as client:
        one = works(client, broker)
        two = join(client, "m2", "other", user_endpoint={"host": "h", "port": 80})
        assert active(two) == {}
        one = beat(client, "m1", one.member_epoch)
        kept = active(one)
        assert sum(map(len, kept.values())) == 3
        assert active(beat(client, "m2", two.member_epoch)) == {}
        tasks = [{"subtopology_id": name, "partitions": each} for name, each in kept.items()]
        one = beat(client, "m1", one.member_epoch, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
        two = beat(client, "m2", two.member_epoch)
        mine = active(two)
        everything = {(n, p) for found in (kept, mine) for n, each in found.items() for p in each}
        assert everything == {(name, p) for name in "01" for p in range(3)}
        (served,) = two.partitions_by_user_endpoint
        assert (served.user_endpoint.host, served.user_endpoint.port) == ("h", 80)
        assert {each.topic for each in served.active_partitions} <= {"in", "app-r"}


def test_a_group_is_described_listed_left_and_deleted(broker: LiveBroker) -> None:
    with broker.client() as client:
        works(client, broker)
        asked = {"group_ids": ["app", "none"], "include_authorized_operations": False}
        asked["include_topology_description"] = False
        app, none = client.call(89, 1, asked).groups
        assert (app.group_state, app.assignor_name, [m.member_id for m in app.members]) == ("Stable", "sticky", ["m1"])
        assert [each.partitions for each in app.topology.subtopologies[1].state_changelog_topics] == [3]
        assert (none.error_code, none.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
        (listed,) = client.call(16, 5, {"states_filter": [], "types_filter": ["streams"]}).groups
        assert (listed.group_id, listed.group_type, listed.protocol_type) == ("app", "streams", "streams")
        assert client.call(42, 2, {"groups_names": ["app"]}).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        assert beat(client, "m1", -1).member_epoch == -1
        assert client.call(42, 2, {"groups_names": ["app"]}).results[0].error_code == 0
        assert client.call(89, 1, asked).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_new_coordinator_continues_the_group(tmp_path: Path) -> None:
    with LiveBroker(tmp_path, SETTINGS) as live, live.client() as client:
        live.create_topic("in", 3)
        before = works(client, live)
    with LiveBroker(tmp_path, SETTINGS) as live, live.client() as client:
        tasks = [{"subtopology_id": name, "partitions": each} for name, each in active(before).items()]
        after = beat(client, "m1", before.member_epoch, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
        assert (after.error_code, after.member_epoch, after.active_tasks) == (0, before.member_epoch, None)


def test_offsets_are_committed_with_the_member_epoch(broker: LiveBroker) -> None:
    def commit(epoch: int, member: str = "m1") -> int:
        partition = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = {
            "group_id": "app",
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
        }
        body["topics"] = [{"name": "in", "partitions": [partition]}]
        answer = client.call(8, 9, body)
        return int(answer.topics[0].partitions[0].error_code)

    with broker.client() as client:
        epoch = works(client, broker).member_epoch
        assert commit(epoch) == 0
        assert commit(epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert commit(epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH  # the task was assigned at the present epoch
        assert commit(epoch, "m2") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changed", "code", "why"),
    [
        ({"topology": None}, ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        (
            {"member_epoch": -3},
            ErrorCode.INVALID_REQUEST,
            "MemberEpoch is -3, but must be greater than or equal to -2.",
        ),
        (
            {"topology": {"epoch": 1, "subtopologies": [part("0", source_topics=["__consumer_offsets"])]}},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            {"topology": {"epoch": 1, "subtopologies": [part("0", source_topics=["a b"])]}},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Topic names a b are not valid topic names.",
        ),
        (
            {"topology": {"epoch": 1, "subtopologies": [part("0", state_changelog_topics=[internal("x", 2)])]}},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Changelog topic x must have an undefined partition count, but it is set to 2.",
        ),
        (
            {"topology": {"epoch": 1, "subtopologies": [part("0", source_topic_regex=["a.*"])]}},
            ErrorCode.INVALID_REQUEST,
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_malformed_heartbeats_are_refused(
    broker: LiveBroker, changed: dict[str, Any], code: ErrorCode, why: str
) -> None:
    with broker.client() as client:
        given = {"member_id": "m", "topology": COUNT, **changed}
        member, topology = given.pop("member_id"), given.pop("topology")
        answer = (
            join(client, member, topology=topology, **given)
            if "member_epoch" not in given
            else beat(client, member, -3)
        )
        assert (answer.error_code, answer.error_message) == (code, why)


DESCRIPTION = {
    "group_id": "app",
    "member_id": "m1",
    "topology_epoch": 1,
    "topology_description": {"subtopologies": [], "global_stores": []},
}
ACLS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def test_no_plug_in_takes_a_description_of_the_topology(broker: LiveBroker) -> None:
    # as Apache Kafka's default, which has no such plug-in either; the heartbeat never asks for a description
    with broker.client() as client:
        answer = client.call(93, 0, DESCRIPTION)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "The broker has no streams group topology description plugin configured."


def test_who_may_not_read_the_group_may_not_describe_its_topology(tmp_path: Path) -> None:
    with LiveBroker(tmp_path, ACLS) as live, live.client() as client:
        assert client.call(93, 0, DESCRIPTION).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
