"""Which ranges a plain read of the format streamactors-kafka has, and which offsets it refuses. No Spark runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.errors import BuildError
from streamactors.kafka import Admin, ConsumerSettings, TopicPartition
from streamactors.kafka.errors import RecordsGone, TopicNotFound
from streamactors.spark.executors.offsets import name_of
from streamactors.spark.kafka_format import reading

DELETED, END = 2, 10
"""Partition t-0 has the records 2 to 9, and t-1 the records 0 to 9."""
NOON = 1_700_000_000_000
"""The time of the first record of topic timed, in ms. Partition 0 has the even milliseconds after it, partition 1 the odd ones."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("t", 2)
        cluster.create_topic("empty", 1)
        cluster.create_topic("timed", 2)
        cluster.create_topic("timed-too", 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(2 * END):
            producer.produce("t", b"%d" % n, partition=n % 2)
        for n in range(2 * END):
            producer.produce("timed", b"%d" % n, partition=n % 2, timestamp=NOON + n)
        assert producer.flush(60) == 0
        with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
            admin.delete_records({TopicPartition("t", 0): DELETED})
        yield cluster


def ranges(cluster: Cluster, **options: object) -> list[reading.Slice]:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    return reading.batch_ranges({"kafka.bootstrap.servers": cluster.bootstrap_servers, **texts})


def offsets(first: int, second: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": first, "1": second}}


def test_a_read_is_from_the_first_record_to_the_end(cluster: Cluster) -> None:
    assert ranges(cluster, subscribe="t") == [("t", 0, DELETED, END), ("t", 1, 0, END)]
    assert ranges(cluster, subscribe="t,t") == ranges(cluster, subscribe="t")
    assert ranges(cluster, assign={"t": [1, 1]}) == [("t", 1, 0, END)]
    found = ranges(cluster, subscribe="t", startingoffsets=offsets(3, -2), endingoffsets=offsets(-1, 4))
    assert found == [("t", 0, 3, END), ("t", 1, 0, 4)]


def test_a_read_of_no_records_has_no_range(cluster: Cluster) -> None:
    assert ranges(cluster, subscribe="empty") == []
    assert ranges(cluster, subscribe="t", startingoffsets="latest") == []
    assert ranges(cluster, subscribe="t", startingoffsets=offsets(END, END)) == []
    assert ranges(cluster, assign={"t": [1]}, startingoffsets={"t": {"1": 4}}, endingoffsets={"t": {"1": 4}}) == []


@pytest.mark.parametrize(
    ("starting", "ending", "error"),
    [
        (offsets(999, 0), "latest", "startingOffsets has 999 for t-0, which ends at 10"),
        (offsets(1, 0), "latest", "startingOffsets has 1 for t-0, which begins at 2"),
        (offsets(11, 12), "latest", "has 11 for t-0, which ends at 10 and 12 for t-1, which ends at 10"),
        ("earliest", offsets(5, 999), "endingOffsets has 999 for t-1, which ends at 10"),
        ("earliest", offsets(1, 5), "endingOffsets has 1 for t-0, which begins at 2"),
    ],
)
def test_an_offset_that_the_partition_does_not_have_is_refused_at_once(
    cluster: Cluster, starting: object, ending: object, error: str
) -> None:
    """A start beyond the end gave no rows in silence, and a task waited 60 s for an end beyond the end."""
    with pytest.raises(RecordsGone, match=f"{error}.*failOnDataLoss=false"):
        ranges(cluster, subscribe="t", startingoffsets=starting, endingoffsets=ending)


def test_without_fail_on_data_loss_what_is_there_is_read(cluster: Cluster) -> None:
    def there(starting: object, ending: object) -> list[reading.Slice]:
        return ranges(cluster, subscribe="t", startingoffsets=starting, endingoffsets=ending, failondataloss="false")

    assert there(offsets(0, 999), offsets(999, 999)) == [("t", 0, DELETED, END)]
    assert there("earliest", offsets(1, 5)) == [("t", 1, 0, 5)]


def test_a_read_that_ends_before_it_begins_is_refused(cluster: Cluster) -> None:
    with pytest.raises(
        BuildError, match=r"t-1 would end at 3 \(endingOffsets\), before it begins at 7 \(startingOffsets\)"
    ):
        ranges(cluster, subscribe="t", startingoffsets=offsets(2, 7), endingoffsets=offsets(4, 3))
    with pytest.raises(BuildError, match="t-0 would end at 4"):
        ranges(cluster, subscribe="t", startingoffsets="latest", endingoffsets=offsets(4, 3))


def test_a_partition_that_does_not_exist_is_named(cluster: Cluster) -> None:
    with pytest.raises(BuildError, match="option assign names t-7, and the partitions of topic t are 0 to 1"):
        ranges(cluster, assign={"t": [0, 7]})
    with pytest.raises(TopicNotFound, match="no topic nowhere"):
        ranges(cluster, assign={"nowhere": [0]})


def test_a_stream_that_would_begin_beyond_the_end_names_the_option(cluster: Cluster) -> None:
    """Its error named a checkpoint, which a first start does not have."""
    planner = reading.planner_of(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": "t",
            "startingoffsets": json.dumps(offsets(2, 999)),
        }
    )
    with pytest.raises(RecordsGone, match="option startingOffsets has 999 for t-1, which ends at 10"):
        planner.initial()


def test_a_stream_and_its_tasks_name_the_option_of_the_format_where_records_are_gone(cluster: Cluster) -> None:
    """They advised fail_on_data_loss=False, which the format does not have."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "assign": json.dumps({"t": [0]})}
    planner = reading.planner_of(options)
    start = {**planner.initial(), name_of(TopicPartition("t", 0)): 0}
    with pytest.raises(
        RecordsGone, match=r"retention has passed the checkpoint: .*; failOnDataLoss=false continues after them"
    ):
        planner.latest(start)
    with pytest.raises(
        RecordsGone, match=r"t-0: the records from 0 on are not there any more .*; failOnDataLoss=false continues after"
    ):
        list(reading.rows_of(options, ("t", 0, 0, END)))


def test_a_read_begins_and_ends_at_times(cluster: Cluster) -> None:
    assert ranges(cluster, subscribe="timed", startingtimestamp=str(NOON + 5)) == [
        ("timed", 0, 3, END),
        ("timed", 1, 2, END),
    ]
    found = ranges(
        cluster,
        subscribe="timed",
        startingoffsetsbytimestamp={"timed": {"0": NOON + 4, "1": NOON}},
        endingoffsetsbytimestamp={"timed": {"0": NOON + 8, "1": NOON + 99}},
    )
    assert found == [("timed", 0, 2, 4), ("timed", 1, 0, END)], "an end after the last record is the end"
    with pytest.raises(
        BuildError, match=r"timed-0 would end at 1 \(endingTimestamp\), before it begins at 3 \(startingTimestamp\)"
    ):
        ranges(cluster, subscribe="timed", startingtimestamp=str(NOON + 5), endingtimestamp=str(NOON + 2))


def test_a_partition_without_a_record_after_the_time_is_named_or_begins_at_its_end(cluster: Cluster) -> None:
    late = str(NOON + 19)  # the last record of partition 1
    with pytest.raises(
        BuildError,
        match=rf"option startingTimestamp: no record at or after the time in timed-0 \({late}\); startingOffsetsByTimestampStrategy=latest",
    ):
        ranges(cluster, subscribe="timed", startingtimestamp=late)
    found = ranges(cluster, subscribe="timed", startingtimestamp=late, startingoffsetsbytimestampstrategy="latest")
    assert found == [("timed", 1, 9, END)]
    with pytest.raises(BuildError, match="option startingOffsetsByTimestamp lacks timed-1"):
        ranges(cluster, subscribe="timed", startingoffsetsbytimestamp={"timed": {"0": 1}})


def test_a_pattern_is_of_whole_names(cluster: Cluster) -> None:
    assert ranges(cluster, subscribepattern="timed|emp") == ranges(cluster, subscribe="timed")
    assert ranges(cluster, subscribepattern="(t|empty)") == ranges(cluster, subscribe="t")
    with pytest.raises(TopicNotFound, match=r"no topic matches nothing\.\* at"):
        ranges(cluster, subscribepattern="nothing.*")


def test_a_read_is_cut_into_as_many_tasks_as_are_asked_for(cluster: Cluster) -> None:
    assert ranges(cluster, subscribe="t", minpartitions="2") == ranges(cluster, subscribe="t")
    assert ranges(cluster, subscribe="t", minpartitions="5") == [
        ("t", 0, 2, 6),
        ("t", 0, 6, 10),
        ("t", 1, 0, 3),
        ("t", 1, 3, 6),
        ("t", 1, 6, 10),
    ]
    assert len(ranges(cluster, subscribe="t", minpartitions="99")) == 18, "one offset each"
