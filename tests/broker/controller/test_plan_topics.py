"""Creating, growing and deleting topics: the codes and texts are answers of Apache Kafka 4.1.1 to the same requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.command import (
    AutoCreate,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Facts,
    MorePartitions,
    NewTopic,
    Outcome,
    PlannedChange,
    TopicCreated,
)
from streamactors.broker.controller.rules.placement import over_racks, place
from streamactors.broker.controller.rules.plan import auto_create
from streamactors.broker.controller.rules.plan_topics import (
    create_partitions,
    create_topics,
    delete_topics,
    directories_of,
)
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.log.folders.folder_ids import UNASSIGNED_FOLDER
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    PartitionRecord,
    TopicRecord,
)


def facts(*, brokers: int = 1, existing: tuple[str, ...] = (), **settings: str | int | bool) -> Facts:
    ids = (uuid.UUID(int=number) for number in count(1))
    config = BrokerConfig.of({name.replace("_", "."): value for name, value in settings.items()})
    image = apply_records(
        MetadataImage(), [BrokerRegistration(b, uuid.UUID(int=b), 1) for b in range(1, brokers + 1)], 0
    ).image
    made = Facts(image, config, broker_id=1, broker_epoch=1, new_topic_id=lambda: next(ids), placement_start=0)
    return after(made, create_topics(made, CreateTopics(tuple(NewTopic(name, 2, 1) for name in existing))))


def after(before: Facts, plan: PlannedChange) -> Facts:
    return before._replace(image=apply_records(before.image, plan.records, 99).image)


def create(given: Facts, *topics: NewTopic, validate_only: bool = False) -> dict[str, TopicCreated]:
    answer: dict[str, TopicCreated] = create_topics(given, CreateTopics(topics, validate_only)).answer
    return answer


def outcome(given: Facts, topic: NewTopic) -> tuple[int, str | None]:
    code, message = create(given, topic)[topic.name].outcome
    return code, message


X250 = "x" * 250


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (NewTopic("a b"), 17, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (NewTopic("ä"), 17, "Topic name is invalid: 'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (NewTopic("a\n"), 17, "Topic name is invalid: 'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (NewTopic("."), 17, "Topic name is invalid: '.' is not allowed"),
        (NewTopic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (NewTopic(X250), 17, f"Topic name is invalid: the length of '{X250}' is longer than the max allowed length 249"),
        (NewTopic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (NewTopic("there"), 36, "Topic 'there' already exists."),
        (NewTopic("t_u"), 17, "Topic 't_u' collides with existing topic: t.u"),
        (NewTopic("t", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("t", -2), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("t", 10_001), 44, "Excessively large number of partitions per request."),
        (NewTopic("t", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("t", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("t", 1, 2), 38, "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."),
        (NewTopic("t", 2, 1, ((0, (1,)),)), 42, "A manual partition assignment was specified, but replication factor was not set to -1."),
        (NewTopic("t", 1, -1, ((0, (1,)),)), 42, "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (NewTopic("t", -1, -1, ((1, (1,)),)), 39, "partitions should be a consecutive 0-based integer sequence"),
        (NewTopic("t", -1, -1, ((0, (1,)), (0, (1,)))), 39, "Found multiple manual partition assignments for partition 0"),
        (NewTopic("t", -1, -1, ((0, (1, 1)),)), 39, "The manual partition assignment includes the broker 1 more than once."),
        (NewTopic("t", -1, -1, ((0, (2,)),)), 39, "The manual partition assignment includes broker 2, but no such broker is registered."),
        (NewTopic("t", -1, -1, ((0, ()),)), 39, "The manual partition assignment includes an empty replica list."),
        (NewTopic("t", configs=(("retention.ms", None),)), 40, "Null value not supported for topic configs: retention.ms"),
        (NewTopic("t", configs=(("foo", "bar"),)), 40, "Unknown topic config name: foo"),
        (NewTopic("t", configs=(("retention.ms", "x"),)), 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (NewTopic("t", configs=(("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "5"))), 40, "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (5)"),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_is_refused_in_kafkas_words(topic: NewTopic, code: int, message: str) -> None:
    assert outcome(facts(existing=("there", "t.u")), topic) == (code, message)


def test_defaults_are_the_brokers() -> None:
    created = create(facts(brokers=3, num_partitions=5, default_replication_factor=2), NewTopic("t"))["t"]
    assert (created.partitions, created.replication_factor, created.outcome.code) == (5, 2, 0)


def test_one_refused_topic_leaves_the_others_alone() -> None:
    plan = create_topics(facts(), CreateTopics((NewTopic("a"), NewTopic("b", 0), NewTopic("c"))))
    assert [r.name for r in plan.records if isinstance(r, TopicRecord)] == ["a", "c"]
    assert [plan.answer[name].outcome.code for name in "abc"] == [0, 37, 0]


def test_a_name_asked_twice_is_refused_once_and_the_other_topics_are_created() -> None:
    answer = create(facts(), NewTopic("d"), NewTopic("d"), NewTopic("e"))
    assert answer["d"].outcome == Outcome(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert answer["e"].outcome.code == 0


def test_two_new_topics_that_collide_in_metrics_do_not_both_come_true() -> None:
    answer = create(facts(), NewTopic("a.b"), NewTopic("a_b"))
    assert [answer["a.b"].outcome.code, answer["a_b"].outcome.code] == [0, 17]


def test_validate_only_answers_alike_and_changes_nothing() -> None:
    given = facts()
    topics = (NewTopic("a", 3), NewTopic("b", 0))
    really, only = create_topics(given, CreateTopics(topics)), create_topics(given, CreateTopics(topics, True))
    assert only.records == []
    assert [o.outcome for o in only.answer.values()] == [o.outcome for o in really.answer.values()]
    assert only.answer["a"].partitions == 3


def test_a_manual_assignment_is_kept_whatever_its_order() -> None:
    given = facts(brokers=3)
    plan = create_topics(given, CreateTopics((NewTopic("t", -1, -1, ((1, (3, 1)), (0, (2, 3)))),)))
    assert [p.replicas for p in after(given, plan).image.topics["t"].partitions] == [(2, 3), (3, 1)]
    assert [p.leader for p in after(given, plan).image.topics["t"].partitions] == [2, 3]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.integers(1, 40), st.data(), st.integers(0, 1_000))
def test_no_rack_has_two_replicas_of_a_partition_while_another_has_none(
    racks: list[str], partitions: int, data: st.DataObject, start: int
) -> None:
    """Several brokers of one host share a rack. From the second round over the brokers on, followers were in the rack of their leader."""
    rack_of: dict[int, str | None] = dict(enumerate(racks, 1))
    replicas = data.draw(st.integers(1, len(racks)))
    for placed in place(over_racks(list(rack_of), rack_of), partitions, replicas, start, rack_of):
        assert len(set(placed)) == replicas
        assert len({rack_of[each] for each in placed}) == min(replicas, len(set(racks)))


@given(st.integers(1, 7), st.integers(1, 40), st.data())
def test_placement_uses_each_broker_once_per_partition_and_spreads_leaders(
    n: int, partitions: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, n))
    placed = place(range(1, n + 1), partitions, replicas, data.draw(st.integers(0, n)))
    assert all(len(set(p)) == replicas and set(p) <= set(range(1, n + 1)) for p in placed)
    leads = [sum(p[0] == broker for p in placed) for broker in range(1, n + 1)]
    assert max(leads) - min(leads) <= 1


# --- growing ---


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (MorePartitions("t", 3), 0, None),
        (MorePartitions("t", 2), 37, "Topic already has 2 partition(s)."),
        (MorePartitions("t", 1), 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (MorePartitions("t", -1), 37, "The topic t currently has 2 partition(s); -1 would not be an increase."),
        (MorePartitions("t", 10_003), 44, "Excessively large number of partitions per request."),
        (MorePartitions("none", 3), 3, None),
        (MorePartitions("t", 4, ((1,),)), 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (MorePartitions("t", 3, ((2,),)), 39, "The manual partition assignment includes broker 2, but no such broker is registered."),
        (MorePartitions("t", 3, ((1, 1),)), 39, "The manual partition assignment includes the broker 1 more than once."),
        (MorePartitions("t", 3, ((),)), 39, "The manual partition assignment includes an empty replica list."),
    ],
)  # fmt: skip
def test_growing_answers_as_kafka_does(topic: MorePartitions, code: int, message: str | None) -> None:
    plan = create_partitions(facts(existing=("t",)), CreatePartitions((topic,)))
    assert tuple(plan.answer[topic.name]) == (code, message)
    assert bool(plan.records) == (code == 0)


def test_growing_keeps_the_partitions_that_are_there() -> None:
    given = facts(existing=("t",))
    grown = after(given, create_partitions(given, CreatePartitions((MorePartitions("t", 5),))))
    assert grown.image.topics["t"].partitions[:2] == given.image.topics["t"].partitions
    assert len(grown.image.topics["t"].partitions) == 5


# --- deleting ---


def test_topics_are_deleted_by_name_and_by_id() -> None:
    given = facts(existing=("a", "b", "c"))
    plan = delete_topics(given, DeleteTopics(("a", given.image.topics["b"].topic_id)))
    assert [(d.name, d.topic_id, d.outcome.code) for d in plan.answer] == [
        ("a", given.image.topics["a"].topic_id, 0),
        ("b", given.image.topics["b"].topic_id, 0),
    ]
    assert set(after(given, plan).image.topics) == {"c"}


def test_a_missing_topic_cannot_be_deleted() -> None:
    unknown = uuid.UUID(int=77)
    by_name, by_id = delete_topics(facts(), DeleteTopics(("no", unknown))).answer
    assert (by_name.name, by_name.outcome) == (
        "no",
        Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
    )
    assert (by_id.topic_id, by_id.outcome) == (
        unknown,
        Outcome(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
    )


def test_the_same_topic_twice_is_refused_and_kept() -> None:
    given = facts(existing=("a",))
    plan = delete_topics(given, DeleteTopics(("a", given.image.topics["a"].topic_id)))
    assert [d.outcome.code for d in plan.answer] == [42, 42]
    assert plan.records == []


def test_deletion_can_be_disabled() -> None:
    given = facts(existing=("a",), delete_topic_enable=False)
    (answer,) = delete_topics(given, DeleteTopics(("a",))).answer
    assert answer.outcome.code == ErrorCode.TOPIC_DELETION_DISABLED


# --- topics that come by themselves ---


def test_internal_topics_take_as_many_replicas_as_brokers_are_alive() -> None:
    for brokers, replicas in ((1, 1), (2, 2), (5, 3)):
        plan = auto_create(facts(brokers=brokers), AutoCreate(("__consumer_offsets", "__transaction_state")))
        for name in ("__consumer_offsets", "__transaction_state"):
            created = plan.answer[name]
            assert (created.outcome.code, created.partitions, created.replication_factor) == (0, 50, replicas)
            assert created.configs["cleanup.policy"] == "compact"
        assert plan.answer["__transaction_state"].configs["min.insync.replicas"] == str(min(2, replicas))


def test_an_ordinary_topic_is_not_created_with_fewer_replicas_than_configured() -> None:
    created = auto_create(facts(default_replication_factor=3), AutoCreate(("t",))).answer["t"]
    assert created.outcome.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_asking_for_a_topic_that_is_there_is_no_error() -> None:
    given = facts(existing=("a",))
    plan = auto_create(given, AutoCreate(("a", "b", "b")))
    assert plan.answer["a"].outcome.code == 0
    assert [r.name for r in plan.records if isinstance(r, TopicRecord)] == ["b"]
    assert sum(isinstance(r, PartitionRecord) for r in plan.records) == 1


def test_an_illegal_name_is_not_created_by_itself_either() -> None:
    assert auto_create(facts(), AutoCreate(("a b",))).answer["a b"].outcome.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("fenced", [1, 2])
def test_new_partitions_have_followers_on_fenced_brokers_where_too_few_are_alive(fenced: int) -> None:
    # Placement divided by zero with one broker alive, and named a broker twice with two.
    given = facts(brokers=3)
    given = after(given, create_topics(given, CreateTopics((NewTopic("t", 1, 3),))))
    alive = set(range(1, 4 - fenced))
    for broker in {1, 2, 3} - alive:
        fence = BrokerRegistrationChange(broker, 1, fenced=1)
        given = given._replace(image=apply_records(given.image, [fence], 100).image)
    more = create_partitions(given, CreatePartitions((MorePartitions("t", 4),)))
    made = create_topics(given, CreateTopics((NewTopic("u", 3, 3),)))
    for plan, name in ((more, "t"), (made, "u")):
        new = [record for record in plan.records if isinstance(record, PartitionRecord)]
        assert len(new) == 3, plan.answer[name]
        for partition in new:
            assert set(partition.replicas) == {1, 2, 3}
            assert set(partition.isr) == alive
            assert partition.leader in alive
    too_many = create_topics(given, CreateTopics((NewTopic("v", 1, 4),))).answer["v"].outcome
    assert "only 3 broker(s) are registered" in str(too_many.message)


def test_no_topic_is_created_while_every_broker_is_fenced() -> None:
    given = facts(brokers=2)
    for broker in (1, 2):
        fence = BrokerRegistrationChange(broker, 1, fenced=1)
        given = given._replace(image=apply_records(given.image, [fence], 100).image)
    outcome = create_topics(given, CreateTopics((NewTopic("t", 1, 1),))).answer["t"].outcome
    assert outcome.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert outcome.message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log directories cordoned."
    )


# --- limits, quotas and folders ---


def spending(limit: int, spent: list[int]) -> Callable[[int], None]:
    """Allow `limit` partitions in all."""

    def spend(partitions: int) -> None:
        spent.append(partitions)
        if sum(spent) > limit:
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "later")

    return spend


def test_a_request_may_have_ten_thousand_partitions_in_all() -> None:
    for more, code in ((5_000, 0), (5_001, ErrorCode.POLICY_VIOLATION)):
        answer = create(facts(), NewTopic("a", 5_000), NewTopic("b", more))
        assert [answer[name].outcome.code for name in "ab"] == [code, code]
    assignment = tuple((number, (1,)) for number in range(10_001))
    assert create(facts(), NewTopic("a", -1, -1, assignment))["a"].outcome.code == ErrorCode.POLICY_VIOLATION
    given = facts(existing=("t",))
    for total, code in ((10_002, 0), (10_003, ErrorCode.POLICY_VIOLATION)):
        assert create_partitions(given, CreatePartitions((MorePartitions("t", total),))).answer["t"].code == code


def test_each_topic_that_is_changed_is_charged_with_its_partitions() -> None:
    given = facts(existing=("a", "b"))
    created: list[int] = []
    answer = create_topics(
        given, CreateTopics((NewTopic("c", 3), NewTopic("d", 0), NewTopic("e", 2)), spend=spending(4, created))
    ).answer
    assert created == [3, 2]
    assert [answer[name].outcome.code for name in "cde"] == [0, 37, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    grown: list[int] = []
    plan = create_partitions(
        given, CreatePartitions((MorePartitions("a", 5), MorePartitions("b", 4)), spend=spending(4, grown))
    )
    assert grown == [3, 2]
    assert [plan.answer[name].code for name in "ab"] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert len(plan.records) == 3
    deleted: list[int] = []
    removed = delete_topics(given, DeleteTopics(("a", "none", "b"), spend=spending(3, deleted)))
    assert deleted == [2, 2]
    assert [each.outcome.code for each in removed.answer] == [0, 3, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert len(removed.records) == 1


def test_added_partitions_have_the_next_numbers_and_as_many_replicas_as_the_others() -> None:
    given = facts(brokers=3)
    given = after(given, create_topics(given, CreateTopics((NewTopic("t", 2, 2),))))
    placed = create_partitions(given, CreatePartitions((MorePartitions("t", 4),))).records
    assert [(each.partition, len(each.replicas)) for each in placed if isinstance(each, PartitionRecord)] == [
        (2, 2),
        (3, 2),
    ]
    for replicas, code in (((3, 1), 0), ((3,), 39), ((3, 1, 2), 39)):
        plan = create_partitions(given, CreatePartitions((MorePartitions("t", 3, (replicas,)),)))
        assert plan.answer["t"].code == code
        assert [each.replicas for each in plan.records if isinstance(each, PartitionRecord)] == (
            [replicas] if not code else []
        )
    too_many = create_partitions(given, CreatePartitions((MorePartitions("t", 3, ((3, 1), (1, 2))),)))
    assert too_many.answer["t"].code == 39


def test_growing_only_as_a_trial_changes_nothing() -> None:
    given = facts(existing=("t",))
    plan = create_partitions(given, CreatePartitions((MorePartitions("t", 3),), validate_only=True))
    assert (plan.answer["t"].code, plan.records) == (0, [])
    twice = create_partitions(given, CreatePartitions((MorePartitions("t", 3), MorePartitions("t", 4))))
    assert (twice.answer["t"].code, twice.records) == (ErrorCode.INVALID_REQUEST, [])


def test_a_partition_whose_replicas_are_all_fenced_is_refused_and_the_living_ones_are_in_sync() -> None:
    given = facts(brokers=3)
    fenced = [BrokerRegistrationChange(broker, 1, fenced=1) for broker in (2, 3)]
    given = given._replace(image=apply_records(given.image, fenced, 100).image)
    assert (
        create(given, NewTopic("t", -1, -1, ((0, (2, 3)),)))["t"].outcome.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    plan = create_topics(given, CreateTopics((NewTopic("t", -1, -1, ((0, (2, 1)),)),)))
    (made,) = [each for each in plan.records if isinstance(each, PartitionRecord)]
    assert (made.isr, made.leader) == ((1,), 1)


def test_a_replica_gets_the_only_folder_of_its_broker_or_none_yet() -> None:
    one, two, three = (uuid.UUID(int=number) for number in (1_001, 1_002, 1_003))
    registered = [
        BrokerRegistration(1, uuid.UUID(int=1), 1, log_dirs=(one,)),
        BrokerRegistration(2, uuid.UUID(int=2), 1, log_dirs=(two, three)),
        BrokerRegistration(3, uuid.UUID(int=3), 1),
    ]
    image = apply_records(MetadataImage(), registered, 0).image
    assert directories_of(image, (2, 1)) == (UNASSIGNED_FOLDER, one)
    assert directories_of(image, (3, 1)) == (UNASSIGNED_FOLDER, one)
    assert directories_of(image, (3,)) == ()
    assert directories_of(image, (9,)) == ()
