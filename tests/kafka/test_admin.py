"""Admin as users have it: topics, settings, offsets, groups and the deletion of records, with the settings of any client."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from click.testing import CliRunner

from streamactors.broker import Cluster
from streamactors.broker.apis import api09_offset_fetch
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import FetchedOffsets
from streamactors.broker.group.groups import Groups
from streamactors.cli.clusters.topics import command
from streamactors.kafka import Admin, ProducerSettings, SendProducer, TopicPartition
from streamactors.kafka.client.admin import EARLIEST, LATEST
from streamactors.kafka.errors import GroupNotFound, NoBroker, TopicError, TopicNotFound
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ClientSettings
from tests.actors.eventually import eventually


def test_topics_settings_offsets_and_groups_are_managed_with_the_settings_of_a_client(cluster, settings):
    with Admin(settings) as admin, SendProducer(ProducerSettings(cluster.bootstrap_servers)) as producer:
        admin.create("managed", partitions=1, settings={"retention.ms": "60000"})
        admin.grow("managed", 2)
        admin.alter("managed", {"retention.ms": None, "max.message.bytes": "2000"})
        assert admin.describe("managed").settings == {"max.message.bytes": "2000"}
        key = TopicPartition("managed", 1)
        for value in (b"a", b"b", b"c"):
            producer.send(ProducerRecord("managed", value, None, 1)).result(30)
        admin.delete_records({key: 2})
        assert admin.offsets({key: EARLIEST}) == {key: 2}
        assert admin.offsets({key: LATEST}) == {key: 3}
        admin.commit("a-group", {key: 3})
        assert admin.committed("a-group") == {key: 3}
        assert "a-group" in [listed.group for listed in admin.groups()]
        admin.delete_group("a-group")
        assert admin.committed("a-group") == {}
        admin.delete("managed")
        with pytest.raises(TopicNotFound, match="managed"):
            admin.describe("managed")
        with pytest.raises(GroupNotFound):
            admin.delete_group("no-group")
        with pytest.raises(TopicError):
            admin.create("bad name!")


def test_offsets_are_found_though_the_leader_that_the_client_knows_does_not_answer(kafka_cluster):
    # The client waited for it until its time was over; then librdkafka gave -1001 as if it were an offset.
    kafka_cluster.create_topic("frozen", 3)
    keys = [TopicPartition("frozen", n) for n in range(3)]
    with Admin(ClientSettings(kafka_cluster.bootstrap_servers)) as admin:
        assert admin.offsets(dict.fromkeys(keys, LATEST)) == dict.fromkeys(keys, 0)
        kafka_cluster.pause(3)  # it leads one of them, and is not the controller
        try:
            assert admin.offsets(dict.fromkeys(keys, LATEST)) == dict.fromkeys(keys, 0)
        finally:
            kafka_cluster.resume(3)


def test_a_topic_with_a_partition_that_has_no_leader_is_described():
    # "the offsets of one-1: Failed to query partition leaders" was all that `topics describe` printed
    with Cluster(brokers=2, controllers=1) as two, Admin(ClientSettings(two.bootstrap_servers)) as admin:
        admin.create("one", 2, 1)
        eventually(lambda: {each.leader for each in admin.placements().values()} == {1, 2}, 30)
        (gone,) = [key.partition for key, each in admin.placements().items() if each.leader == 2]
        two.kill(2)
        eventually(lambda: admin.placements()[TopicPartition("one", gone)].leader == -1, 60)
        ran = CliRunner().invoke(command, ["describe", "one", "--bootstrap", two.bootstrap_servers])
        rows = {line.split()[0]: line.split() for line in ran.output.splitlines()}
        assert ran.exit_code == 0
        assert rows[str(gone)] == [str(gone), "none", "2", "-", "-", "-"]
        assert rows[str(1 - gone)] == [str(1 - gone), "1", "1", "1", "0", "0"]


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
@pytest.mark.parametrize("named", [True, False])
def test_committed_offsets_are_found_though_the_groups_coordinator_moves(cluster, settings, monkeypatch, error, named):
    # NOT_COORDINATOR ended the process: librdkafka's admin client followed a pointer to a group that it has not.
    key, genuine, asked = TopicPartition("moved", 1), api09_offset_fetch._fetch, []

    def fetch(request, group, then):
        asked.append(group.group_id)
        if len(asked) <= 2:
            then(FetchedOffsets(error))
        else:
            genuine(request, group, then)

    with Admin(settings) as admin:
        admin.create("moved", partitions=2, exist_ok=True)
        admin.commit("moving", {key: 3}, "a note")
        monkeypatch.setattr(api09_offset_fetch, "_fetch", fetch)
        assert admin.committed_with_metadata("moving", [key] if named else None) == {key: (3, "a note")}
        assert asked == ["moving"] * 3
        assert admin.members("moving") == ()


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_group_is_described_and_deleted_though_its_coordinator_moves(cluster, settings, monkeypatch, error):
    # Right after the start of a cluster every coordinator reads its partition, and librdkafka does not ask again.
    refused = []

    def refuses_twice(genuine, refusal):
        def answer(groups, names, then):
            if refused.count(genuine) < 2:
                refused.append(genuine)
                then([refusal] * len(names))
            else:
                genuine(groups, names, then)

        return answer

    with Admin(settings) as admin:
        admin.create("moved", partitions=2, exist_ok=True)
        admin.commit("moving", {TopicPartition("moved", 0): 3})
        for name, refusal in (("describe_groups", (error, None)), ("delete_groups", error)):
            monkeypatch.setattr(Groups, name, refuses_twice(getattr(Groups, name), refusal))
        assert admin.describe_group("moving").state == "Empty"
        admin.delete_group("moving")
        assert len(refused) == 4
        with pytest.raises(GroupNotFound):
            admin.describe_group("moving")


def test_an_answer_that_never_comes_is_an_error_of_this_package(settings, monkeypatch):
    monkeypatch.setattr("streamactors.kafka.client.admin.REQUEST_TIMEOUT_MS", -5_000)  # 5 s before the future is asked
    with Admin(settings) as admin:
        monkeypatch.setattr(admin._client, "list_consumer_groups", lambda **_: Future())
        with pytest.raises(NoBroker):
            admin.groups()
