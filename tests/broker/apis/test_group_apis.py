"""The group APIs over a real socket, in every version served: requests reach the coordinator, answers come back whole."""

from __future__ import annotations

import pytest

from streamactors.broker import Cluster
from tests.broker.apis.group_client import RANGE, E, commit, fetch, join, sync
from tests.broker.wire import WireClient, wait_until

BROKER_CONFIG = {"group.max.session.timeout.ms": 60_000}
COORDINATORS = (0,)


# -- coordinators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("kind", [0, 1])
def test_find_coordinator(client: WireClient, cluster: Cluster, version: int, kind: int) -> None:
    if version == 0 and kind == 1:
        pytest.skip("version 0 asks for groups only")
    answer = client.call(10, version, {"key": "k", "coordinator_keys": ["k", "l"], "key_type": kind})
    port = int(cluster.bootstrap_servers.rpartition(":")[2])
    for coordinator in answer.coordinators if version >= 4 else [answer]:
        assert (coordinator.error_code, coordinator.port) == (E.NONE, port)
    if version >= 4:
        assert [coordinator.key for coordinator in answer.coordinators] == ["k", "l"]


def test_the_first_question_for_a_coordinator_is_answered() -> None:
    with Cluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            for kind in (0, 1):
                assert client.call(10, 3, {"key": "k", "key_type": kind}).error_code == E.NONE


def test_an_unknown_kind_of_coordinator_is_refused(client: WireClient) -> None:
    assert client.call(10, 3, {"key": "k", "key_type": 9}).error_code == E.INVALID_REQUEST
    assert (
        client.call(10, 6, {"coordinator_keys": ["k"], "key_type": 2}).coordinators[0].error_code == E.INVALID_REQUEST
    )


# -- membership --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_join_in_every_version(client: WireClient, group: str, version: int) -> None:
    first = client.call(
        11,
        version,
        {
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": RANGE}],
        },
    )
    assert first.error_code == (E.MEMBER_ID_REQUIRED if version >= 4 else E.NONE)
    joined = join(client, group, version, first.member_id) if version >= 4 else first
    assert (joined.error_code, joined.generation_id, joined.leader) == (E.NONE, 1, joined.member_id)
    assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, RANGE)]
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.member_id.startswith("test-")


@pytest.mark.parametrize("version", range(6))
def test_sync_heartbeat_and_leave_in_every_version(client: WireClient, group: str, version: int) -> None:
    joined = join(client, group)
    synced = sync(client, group, joined, version)
    assert (synced.error_code, synced.assignment) == (E.NONE, b"mine")
    if version >= 5:
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    beat = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
    assert client.call(12, min(version, 4), beat).error_code == E.NONE
    left = client.call(
        13, version, {"group_id": group, "member_id": joined.member_id, "members": [{"member_id": joined.member_id}]}
    )
    assert left.error_code == E.NONE
    assert [m.error_code for m in left.members] == ([E.NONE] if version >= 3 else [])
    again = client.call(
        13, version, {"group_id": group, "member_id": joined.member_id, "members": [{"member_id": joined.member_id}]}
    )
    assert [again.error_code, *(m.error_code for m in again.members)] == (
        [E.NONE, E.UNKNOWN_MEMBER_ID] if version >= 3 else [E.UNKNOWN_MEMBER_ID]
    )


def test_sync_must_name_its_protocol_from_version_5_on(client: WireClient, group: str) -> None:
    joined = join(client, group)
    assert sync(client, group, joined, 5, protocol_name=None).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert sync(client, group, joined, 4).error_code == E.NONE


@pytest.mark.parametrize("group_id", ["", "ü" * 20_000])
def test_an_impossible_group_id_is_refused(client: WireClient, group_id: str) -> None:
    assert join(client, group_id, 6).error_code == E.INVALID_GROUP_ID
    beat = {"group_id": group_id, "generation_id": 1, "member_id": "m"}
    assert client.call(12, 4, beat).error_code == E.INVALID_GROUP_ID
    assert client.call(13, 4, {"group_id": group_id, "members": []}).error_code == E.INVALID_GROUP_ID
    assert (
        client.call(14, 4, {"group_id": group_id, "generation_id": 1, "member_id": "m"}).error_code
        == E.INVALID_GROUP_ID
    )


@pytest.mark.parametrize("session_timeout_ms", [0, 5_999, 60_001, 2**31 - 1])
def test_a_session_out_of_range_is_refused(client: WireClient, group: str, session_timeout_ms: int) -> None:
    assert join(client, group, session_timeout_ms=session_timeout_ms).error_code == E.INVALID_SESSION_TIMEOUT


def test_parked_requests_of_one_connection_do_not_block_the_others(client: WireClient, group: str) -> None:
    joined = join(client, group)
    sync(client, group, joined)
    waiting = {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
               "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": RANGE}]}  # fmt: skip
    client.send(11, 3, waiting)
    with WireClient(*client.socket.getpeername()[:2]) as other:
        beat = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
        assert other.call(12, 4, beat).error_code == E.REBALANCE_IN_PROGRESS
        assert other.call(11, 5, {**waiting, "member_id": joined.member_id}).generation_id == 2
    assert client.receive()[1].generation_id == 2


# -- administration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_describe_in_every_version(client: WireClient, group: str, version: int) -> None:
    joined = join(client, group)
    (waiting,) = client.call(15, version, {"groups": [group]}).groups
    assert (waiting.group_state, waiting.protocol_data, waiting.members[0].member_metadata) == (
        "CompletingRebalance",
        "",
        b"",
    )
    sync(client, group, joined)
    found, missing = client.call(
        15, version, {"groups": [group, "nobody"], "include_authorized_operations": True}
    ).groups
    assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = found.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (RANGE, b"mine")
    assert missing.group_state == "Dead"
    assert missing.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE)
    if version >= 3:
        # read, delete, describe, describe and alter configs
        assert found.authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))


def test_a_group_that_only_gave_out_a_member_id_is_not_there_for_others(client: WireClient, group: str) -> None:
    body = {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""}
    protocols = [{"name": "range", "metadata": RANGE}]
    newcomer = client.call(11, 5, {**body, "protocol_type": "consumer", "protocols": protocols})
    assert newcomer.error_code == E.MEMBER_ID_REQUIRED
    assert client.call(15, 6, {"groups": [group]}).groups[0].error_code == E.GROUP_ID_NOT_FOUND
    assert group not in {g.group_id for g in client.call(16, 4, {"states_filter": []}).groups}


def test_members_keep_their_partitions_while_others_join(client: WireClient, cluster: Cluster, group: str) -> None:
    joined = join(client, group)
    sync(client, group, joined)
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as second:
        body = {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""}
        second.send(11, 3, {**body, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": RANGE}]})
        wait_until(lambda: len(client.call(15, 4, {"groups": [group]}).groups[0].members) == 2)
        (found,) = client.call(15, 4, {"groups": [group]}).groups
        owned = {m.member_id: m.member_assignment for m in found.members}
    assert (found.group_state, owned[joined.member_id]) == ("PreparingRebalance", b"mine")


@pytest.mark.parametrize("version", range(6))
def test_list_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    sync(client, group, join(client, group))
    commit(client, f"{group}-simple", topic)
    listed = {g.group_id: g for g in client.call(16, version, {"states_filter": [], "types_filter": []}).groups}
    assert listed[group].protocol_type == "consumer"
    assert listed[f"{group}-simple"].protocol_type == ""
    if version >= 4:
        assert (listed[group].group_state, listed[f"{group}-simple"].group_state) == ("Stable", "Empty")
        only = {g.group_id for g in client.call(16, version, {"states_filter": ["stable"]}).groups}
        assert group in only
        assert f"{group}-simple" not in only
    if version >= 5:
        assert client.call(16, version, {"types_filter": ["consumer"]}).groups == ()
        assert group in {g.group_id for g in client.call(16, version, {"types_filter": ["Classic"]}).groups}


@pytest.mark.parametrize("version", range(4))
def test_delete_groups_in_every_version(client: WireClient, group: str, topic: str, version: int) -> None:
    commit(client, group, topic)
    full = f"{group}-full"
    sync(client, full, join(client, full))
    results = client.call(42, version, {"groups_names": [group, full, "nobody", group]}).results
    assert {r.group_id: r.error_code for r in results} == {
        group: E.NONE,
        full: E.NON_EMPTY_GROUP,
        "nobody": E.GROUP_ID_NOT_FOUND,
    }
    assert fetch(client, group, topic) == [(-1, E.NONE)]


def test_newcomers_are_welcome_when_all_members_have_left_in_the_middle_of_a_rebalance(
    cluster: Cluster, client: WireClient, group: str
) -> None:
    # stable -> a newcomer is given an id -> another joins, a rebalance begins -> all leave: it waits for the first newcomer, and must
    # not refuse everybody for having no assignor in common with nobody
    host, port = cluster.bootstrap_servers.split(":")
    body = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": RANGE}],
    }
    member = join(client, group)
    sync(client, group, member)
    with WireClient(host, int(port)) as second, WireClient(host, int(port)) as third:
        pending = second.call(11, 5, {**body, "member_id": ""})
        assert pending.error_code == E.MEMBER_ID_REQUIRED
        joining = third.call(11, 5, {**body, "member_id": ""})
        third.send(11, 5, {**body, "member_id": joining.member_id})
        wait_until(lambda: client.call(15, 4, {"groups": [group]}).groups[0].group_state == "PreparingRebalance")
        leaving = [{"member_id": m, "group_instance_id": None} for m in (member.member_id, joining.member_id)]
        client.call(13, 3, {"group_id": group, "members": leaving})
        newcomer = client.call(11, 5, {**body, "member_id": ""})
        assert newcomer.error_code == E.MEMBER_ID_REQUIRED
        gone = [{"member_id": newcomer.member_id, "group_instance_id": None}]  # or the rebalance would wait for it
        client.call(13, 3, {"group_id": group, "members": gone})
        again = second.call(11, 5, {**body, "member_id": pending.member_id})
        assert (again.error_code, again.leader) == (E.NONE, pending.member_id)
