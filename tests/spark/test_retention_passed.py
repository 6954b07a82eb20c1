"""Records that retention has deleted before Spark read them: an error that names them, or one warning. No Spark runs here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.kafka import Admin, ConsumerSettings, Subscriptions, TopicPartition
from streamactors.kafka.errors import RecordsGone
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.kafka.subscriptions import Subscription
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.executors.runner import named
from streamactors.spark.query.source_identity import SourceIdentity


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def fill(cluster: Cluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def delete_before(cluster: Cluster, topic: str, offset: int) -> None:
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


def start_of(cluster: Cluster, group: str, subscription: Subscription) -> StartPositions:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=group, auto_offset_reset="latest")
    return StartPositions(settings, subscription, False, lambda _: None)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_committed_offset_whose_record_is_gone_is_an_error_or_one_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    # auto_offset_reset decided, in silence: with "latest" the records that still existed were skipped, too
    cluster.create_topic("committed", 1)
    fill(cluster, "committed", 20)
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.commit("g", {TopicPartition("committed", 0): 5})
    delete_before(cluster, "committed", 12)
    start = start_of(cluster, "g", Subscriptions.topics("committed"))
    gone = "retention has passed what group g has committed: committed-0 5 to 11 is not there any more"
    with pytest.raises(RecordsGone, match=f"^{gone}; fail_on_data_loss=False continues after them\n"):
        start.initial()
    assert start.initial(skip_lost=True) == {"committed-0": 12}
    assert warnings(caplog) == [f"{gone}; the read continues after them"]


def test_an_offset_to_begin_at_whose_record_is_gone_is_named_and_a_group_without_offsets_begins_as_it_says(
    cluster: Cluster,
) -> None:
    cluster.create_topic("told", 1)
    fill(cluster, "told", 9)
    delete_before(cluster, "told", 4)
    told = Subscriptions.assignment_with_offset({("told", 0): 2})
    with pytest.raises(RecordsGone, match="has passed the offsets to begin at: told-0 2 to 3 is not there any more"):
        start_of(cluster, "h", told).initial()
    assert start_of(cluster, "i", Subscriptions.topics("told")).initial() == {"told-0": 9}


def test_a_checkpoint_whose_records_are_gone_is_an_error_or_one_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("kept", 1)
    fill(cluster, "kept", 9)
    delete_before(cluster, "kept", 4)
    start = start_of(cluster, "j", Subscriptions.topics("kept"))
    with pytest.raises(RecordsGone, match="retention has passed the checkpoint: kept-0 1 to 3 is not there any more"):
        start.existing({"kept-0": 1}, skip_lost=False)
    assert start.existing({"kept-0": 1}, skip_lost=True) == {TopicPartition("kept", 0): 4}
    assert len(warnings(caplog)) == 1


def test_records_that_are_deleted_while_a_query_runs_are_logged_with_the_batch_that_lacks_them(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("running", 1)
    fill(cluster, "running", 10)
    where = start_of(cluster, "k", Subscriptions.assignment_with_offset({("running", 0): 0}))
    plans = Plans(
        settings=ConsumerSettings(cluster.bootstrap_servers),
        subscription=Subscriptions.topics("running"),
        first=named(where.initial()),
        ends=None,
        commits=False,
        windows=False,
        idle_after_ms=None,
        state_folder="",
        max_rows=1_000,
        target_ms=10_000,
        skip_lost=True,
        topics=("running",),
        source=SourceIdentity(where.label, where.identity()),
    )
    planner = Planner(plans)
    end = planner.latest(planner.initial())
    assert warnings(caplog) == []
    fill(cluster, "running", 10)
    delete_before(cluster, "running", 14)
    planner.latest(end)
    said = "retention has deleted records before they were read; the query skips running-0 10 to 13"
    assert warnings(caplog) == [said]

    of_a_graph = Planner(replace(plans, source=None))
    of_a_graph.latest({"0/running-0": 10})
    assert warnings(caplog) == [said], "the driver has said it"
