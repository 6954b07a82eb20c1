"""The image is what the records add up to, however they are cut into batches."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    BrokerRegistrationChange,
    ConfigRecord,
    Endpoint,
    FeatureLevel,
    MetadataRecord,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopic,
    TopicRecord,
    UnregisterBroker,
)
from streamactors.broker.protocol.record_schema import CorruptRecord

IDS = [uuid.UUID(int=n) for n in range(1, 6)]
A, B = IDS[0], IDS[1]


def topic(name: str, topic_id: uuid.UUID, partitions: int = 1) -> list[MetadataRecord]:
    return [TopicRecord(name, topic_id), *(PartitionRecord(n, topic_id, (1,), (1,), 1) for n in range(partitions))]


def image_of(*records: MetadataRecord) -> MetadataImage:
    return apply_records(MetadataImage(), records, len(records) - 1).image


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(*topic("a", A, 3))
    assert image.topics["a"] is image.topics_by_id[A]
    assert [p.partition for p in image.topics["a"].partitions] == [0, 1, 2]


def test_an_image_never_changes_under_its_reader() -> None:
    first = image_of(*topic("a", A))
    later = apply_records(
        first, [*topic("b", B), ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "1"), RemoveTopic(A)], 9
    )
    assert set(first.topics) == {"a"}
    assert first.topic_overrides("a") == {}
    assert set(later.image.topics) == {"b"}
    assert later.image.offset == 9


def test_a_delta_lists_created_changed_and_deleted_topics() -> None:
    first = image_of(*topic("a", A), *topic("b", B), *topic("c", IDS[2]))
    delta = apply_records(
        first,
        [
            PartitionRecord(1, A, (1,), (1,), 1),
            RemoveTopic(B),
            *topic("d", IDS[3]),
            ConfigRecord(TOPIC_RESOURCE, "c", "retention.ms", "1"),
            ConfigRecord(BROKER_RESOURCE, "1", "log.retention.ms", "1"),
        ],
        20,
    )
    assert [t.name for t in delta.created] == ["d"]
    assert [t.name for t in delta.changed] == ["a"]
    assert [t.name for t in delta.deleted] == ["b"]
    assert delta.configured_topics == {"c"}
    assert delta.brokers_configured
    assert first.topics["c"] is delta.image.topics["c"]


def test_a_new_leader_begins_an_epoch_and_a_smaller_isr_does_not() -> None:
    image = image_of(*topic("a", A), PartitionChange(0, A, isr=(), leader=-1), PartitionChange(0, A, isr=(1,)))
    assert image.topics["a"].partitions[0] == PartitionRecord(0, A, (1,), (1,), -1, leader_epoch=1, partition_epoch=2)


def test_deleting_a_topic_deletes_its_settings() -> None:
    image = image_of(
        *topic("a", A), ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "1"), RemoveTopic(A), *topic("a", B)
    )
    assert image.topic_overrides("a") == {}
    assert image.topics["a"].topic_id == B


def test_a_removed_setting_is_gone() -> None:
    config = ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "1")
    assert image_of(config).configs == {(TOPIC_RESOURCE, "a"): {"retention.ms": "1"}}
    assert image_of(config, ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", None)).configs == {}


def test_brokers_come_are_fenced_and_go() -> None:
    registered = BrokerRegistration(7, uuid.uuid4(), 3, endpoints=(Endpoint("PLAINTEXT", "h", 1),))
    image = image_of(registered, BrokerRegistrationChange(7, 3, fenced=1))
    assert image.live_brokers() == []
    endpoint = image.brokers[7].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert endpoint.host == "h"
    assert image.brokers[7].endpoint("OTHER") is None
    assert image_of(registered, UnregisterBroker(7, 3)).brokers == {}


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([TopicRecord("a", A), TopicRecord("a", B)], "topic a is created twice"),
        ([PartitionRecord(0, A, (1,), (1,), 1)], "there is no such topic"),
        ([TopicRecord("a", A), PartitionRecord(1, A, (1,), (1,), 1)], "topic a has 1 partitions, but none numbered 0"),
        ([TopicRecord("a", A), PartitionChange(0, A, leader=1)], "a-0 changes, but there is no such partition"),
        ([RemoveTopic(A)], "is deleted, but it does not exist"),
        ([*topic("a", A), RemoveTopic(A), RemoveTopic(A)], "is deleted, but it does not exist"),
        ([UnregisterBroker(1, 1)], "broker 1 changes, but it was never registered"),
        ([ProducerIdsRecord(1, 1, 5), ProducerIdsRecord(1, 1, 5)], "producer ids go back from 5 to 5"),
    ],
)
def test_records_that_contradict_each_other_are_corruption(records: list[MetadataRecord], complaint: str) -> None:
    with pytest.raises(CorruptRecord, match=complaint):
        image_of(*records)


@st.composite
def histories(draw: st.DrawFn) -> list[list[MetadataRecord]]:
    """Legal histories, as batches."""
    batches: list[list[MetadataRecord]] = []
    there: dict[str, tuple[uuid.UUID, int]] = {}
    ids = iter(uuid.UUID(int=n) for n in range(1, 1000))
    producer_id = 0
    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from("abc"))
        if name not in there:
            there[name] = (next(ids), draw(st.integers(1, 3)))
            batch = topic(name, *there[name])
        else:
            topic_id, count = there[name]
            kind = draw(st.integers(0, 5))
            if kind == 0:
                batch = [RemoveTopic(topic_id)]
                del there[name]
            elif kind == 1:
                batch = [PartitionRecord(count, topic_id, (1, 2), (1,), 1)]
                there[name] = (topic_id, count + 1)
            elif kind == 2:
                batch = [PartitionChange(draw(st.integers(0, count - 1)), topic_id, leader=draw(st.integers(-1, 2)))]
            elif kind == 3:
                batch = [
                    ConfigRecord(TOPIC_RESOURCE, name, draw(st.sampled_from("xy")), draw(st.sampled_from([None, "1"])))
                ]
            elif kind == 4:
                producer_id += 1000
                batch = [ProducerIdsRecord(1, 1, producer_id)]
            else:
                batch = [FeatureLevel(draw(st.sampled_from("pq")), draw(st.integers(0, 2)))]
        batches.append(batch)
    return batches


@settings(max_examples=80)
@given(histories())
def test_cutting_the_log_into_batches_never_changes_the_image(batches: list[list[MetadataRecord]]) -> None:
    stepwise, offset = MetadataImage(), -1
    for batch in batches:
        offset += len(batch)
        stepwise = apply_records(stepwise, batch, offset).image
    at_once = ImageDelta(MetadataImage())
    for batch in batches:
        for record in batch:
            at_once.replay(record)
    assert at_once.finish(offset) == stepwise


@settings(max_examples=80)
@given(histories())
def test_an_image_is_rebuilt_from_its_own_records(batches: list[list[MetadataRecord]]) -> None:
    image = image_of(*(record for batch in batches for record in batch))
    assert apply_records(MetadataImage(), image.records(), image.offset).image == image
