"""AlterPartition, ElectLeaders and moves of replicas: from a command and the image to records. Codes: spec of Apache Kafka 4.1.1."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from streamactors.broker.controller.cluster_command import (
    ElectLeaders,
    Move,
    Reassign,
    RegisterController,
    UnregisterBroker,
    UnregisterController,
)
from streamactors.broker.controller.command import AllocateProducerIds, Outcome, ProducerIdBlock
from streamactors.broker.controller.rules import plan_partitions
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.controller.rules.plan_partitions import balance_leaders, register_controller
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import ConfigRecord, ControllerRegistration, FeatureLevel
from streamactors.broker.replication.isr_requests import AlterPartition, IsrProposal
from tests.broker.controller.clusters import TOPIC, TOPIC_ID, after, cluster, directory, facts, only, partition


def proposal(
    *isr: int,
    leader_epoch: int = 5,
    partition_epoch: int = 7,
    epochs: dict[int, int] | None = None,
    recovering: int = 0,
) -> IsrProposal:
    given = epochs or {}
    return IsrProposal(
        TOPIC_ID,
        0,
        leader_epoch,
        partition_epoch,
        tuple((each, given.get(each, 10 + each)) for each in isr),
        recovering,
    )


def altered(
    image: MetadataImage, wanted: IsrProposal, *, by: int = 1, epoch: int | None = None
) -> tuple[ErrorCode, MetadataImage]:
    made = plan(facts(image), AlterPartition(by, 10 + by if epoch is None else epoch, (wanted,)))
    answer = made.answer
    error = answer.error or answer.outcomes[0].error
    return error, after(image, made.records) if made.records else image


def test_a_leader_takes_a_follower_out_of_the_isr_and_in_again() -> None:
    error, image = altered(cluster(partition()), proposal(1, 3))
    assert (error, only(image).isr, only(image).partition_epoch) == (ErrorCode.NONE, (1, 3), 8)
    assert only(image).leader_epoch == 5, "a change of the ISR begins no leader epoch"
    error, image = altered(image, proposal(3, 1, 2, partition_epoch=8))
    assert (error, only(image).isr) == (ErrorCode.NONE, (1, 2, 3))


@pytest.mark.parametrize(
    ("wanted", "by", "epoch", "error"),
    [
        (proposal(1, 2), 1, 10, ErrorCode.STALE_BROKER_EPOCH),
        (proposal(1, 2, leader_epoch=4), 1, 11, ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, 2, leader_epoch=6), 1, 11, ErrorCode.NOT_CONTROLLER),
        (proposal(1, 2, partition_epoch=6), 1, 11, ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(1, 2, partition_epoch=8), 1, 11, ErrorCode.NOT_CONTROLLER),
        (proposal(2, 3), 2, 12, ErrorCode.INVALID_REQUEST),
        (proposal(2, 3), 1, 11, ErrorCode.INVALID_REQUEST),
        (proposal(1, 4), 1, 11, ErrorCode.INVALID_REQUEST),
        (proposal(), 1, 11, ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, recovering=1), 1, 11, ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, epochs={2: 9}), 1, 11, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_that_is_late_or_wrong_changes_nothing(
    wanted: IsrProposal, by: int, epoch: int, error: ErrorCode
) -> None:
    before = cluster(partition(), brokers=(1, 2, 3, 4))
    assert altered(before, wanted, by=by, epoch=epoch) == (error, before)


def test_a_fenced_follower_stays_out_and_an_unchecked_epoch_is_accepted() -> None:
    image = cluster(partition(isr=(1,)), fenced=(2,))
    assert altered(image, proposal(1, 2))[0] is ErrorCode.INELIGIBLE_REPLICA
    error, image = altered(image, proposal(1, 3, epochs={3: -1}))
    assert (error, only(image).isr) == (ErrorCode.NONE, (1, 3))


def test_an_unchanged_isr_is_no_record() -> None:
    before = cluster(partition())
    made = plan(facts(before), AlterPartition(1, 11, (proposal(1, 2, 3),)))
    assert made.records == []
    assert made.answer.outcomes[0].partition_epoch == 7


# --- elections ---


def elected(image: MetadataImage, *, unclean: bool = False) -> tuple[ErrorCode, MetadataImage]:
    made = plan(facts(image), ElectLeaders(((TOPIC, 0),), unclean))
    ((_, outcome),) = made.answer
    return outcome.code, after(image, made.records) if made.records else image


def test_the_preferred_leader_is_the_first_replica() -> None:
    error, image = elected(cluster(partition(leader=2)))
    assert (error, only(image).leader, only(image).leader_epoch) == (ErrorCode.NONE, 1, 6)
    assert elected(image)[0] is ErrorCode.ELECTION_NOT_NEEDED
    assert elected(cluster(partition(leader=2, isr=(2, 3))))[0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_unclean_election_takes_a_replica_outside_the_isr_only_without_a_leader() -> None:
    lost = cluster(partition(isr=(2,), leader=NO_LEADER), fenced=(2,))
    error, image = elected(lost, unclean=True)
    assert (error, only(image).leader, only(image).isr, only(image).recovering) == (ErrorCode.NONE, 1, (1,), 1)
    assert elected(cluster(partition()), unclean=True)[0] is ErrorCode.ELECTION_NOT_NEEDED
    nobody = cluster(partition(replicas=(2, 3), isr=(2,), leader=NO_LEADER), fenced=(2, 3))
    assert elected(nobody, unclean=True)[0] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_all_partitions_lists_only_those_with_an_election() -> None:
    image = cluster(partition(0), partition(1, leader=2))
    made = plan(facts(image), ElectLeaders(None))
    assert made.answer == [((TOPIC, 1), Outcome())]


# --- moves ---


def moved(image: MetadataImage, *replicas: int, cancel: bool = False) -> tuple[ErrorCode, MetadataImage]:
    made = plan(facts(image), Reassign((Move(TOPIC, 0, None if cancel else replicas),)))
    (outcome,) = made.answer
    return outcome.code, after(image, made.records) if made.records else image


def test_a_replica_moves_when_the_new_one_has_the_data() -> None:
    image = cluster(partition(replicas=(1, 2)))
    error, image = moved(image, 1, 3)
    seen = only(image)
    assert (error, seen.replicas, seen.adding, seen.removing) == (ErrorCode.NONE, (1, 3, 2), (3,), (2,))
    assert (seen.leader, seen.isr) == (1, (1, 2))
    error, image = altered(image, proposal(1, 2, 3, partition_epoch=8))
    seen = only(image)
    assert (error, seen.replicas, seen.adding, seen.removing) == (ErrorCode.NONE, (1, 3), (), ())
    assert seen.isr == (1, 3)
    assert seen.leader_epoch == 6, "the removed replica must not fetch in the epoch that it knows"


def test_a_leader_that_is_moved_away_hears_that_another_leads() -> None:
    error, image = moved(cluster(partition(replicas=(1, 2))), 2, 3)
    assert error is ErrorCode.NONE
    error, image = altered(image, proposal(1, 2, 3, partition_epoch=8))
    assert error is ErrorCode.NEW_LEADER_ELECTED
    assert (only(image).leader, only(image).replicas) == (2, (2, 3))


def test_a_move_names_the_data_folder_of_every_replica() -> None:
    """A broker of Apache Kafka stops at a partition that has other numbers of replicas and of folders."""
    _, image = moved(cluster(replace(partition(replicas=(1, 2)), directories=(directory(1), directory(2)))), 1, 3)
    assert only(image).directories == (directory(1), directory(3), directory(2))
    _, image = altered(image, proposal(1, 2, 3, partition_epoch=8))
    assert only(image).directories == (directory(1), directory(3))


def test_fewer_replicas_need_no_data_and_another_order_neither() -> None:
    _, image = moved(cluster(partition()), 3, 1)
    assert (only(image).replicas, only(image).isr, only(image).removing) == ((3, 1), (1, 3), ())
    assert moved(image, 3, 1) == (ErrorCode.NONE, image)


def test_a_move_is_cancelled() -> None:
    _, image = moved(cluster(partition(replicas=(1, 2))), 1, 3)
    error, image = moved(image, cancel=True)
    assert (error, only(image).replicas, only(image).adding, only(image).removing) == (ErrorCode.NONE, (1, 2), (), ())
    assert moved(image, cancel=True)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_to_an_unknown_broker_is_refused() -> None:
    assert moved(cluster(partition()), 1, 9)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


# --- the rest ---


def test_producer_ids_go_to_the_broker_that_asks_and_to_no_earlier_life_of_it() -> None:
    image = cluster()
    made = plan(facts(image), AllocateProducerIds((2, 12)))
    assert made.answer == ProducerIdBlock(0)
    assert plan(facts(after(image, made.records)), AllocateProducerIds()).answer == ProducerIdBlock(1000)
    assert plan(facts(image), AllocateProducerIds((2, 11))).answer == Outcome(ErrorCode.STALE_BROKER_EPOCH)


def test_a_broker_that_is_gone_for_good_is_forgotten() -> None:
    image = cluster(partition(replicas=(2, 1)))
    made = plan(facts(image), UnregisterBroker(2))
    image = after(image, made.records)
    assert 2 not in image.brokers
    assert (only(image).leader, only(image).isr) == (1, (1,))
    assert plan(facts(image), UnregisterBroker(2)).answer.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_controller_that_is_gone_for_good_is_forgotten_from_level_33_on() -> None:
    # codes and sentences are answers of Apache Kafka 4.4.0
    registered = ControllerRegistration(7, uuid.UUID(int=7))
    image = after(cluster(), [FeatureLevel("metadata.version", 32), registered])
    old = "The current MetadataVersion is too old to support controller unregistration."
    assert plan(facts(image), UnregisterController(7)).answer == Outcome(ErrorCode.UNSUPPORTED_VERSION, old)
    image = after(image, [FeatureLevel("metadata.version", 33)])
    made = plan(facts(image), UnregisterController(7))
    assert made.answer == Outcome()
    image = after(image, made.records)
    assert 7 not in image.controllers
    gone = "Controller ID 7 is not currently registered."
    assert plan(facts(image), UnregisterController(7)).answer == Outcome(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, gone)
    itself = "Controller cannot unregister itself while it is active."
    assert plan(facts(image), UnregisterController(1)).answer == Outcome(ErrorCode.INVALID_REQUEST, itself)


def test_leaders_are_balanced_and_unclean_elections_made_where_topics_allow_them() -> None:
    moved = cluster(partition(leader=2))
    made = balance_leaders(facts(moved))
    assert made.answer == 1
    assert only(after(moved, made.records)).leader == 1
    assert balance_leaders(facts(after(moved, made.records))).records == []
    absent = cluster(partition(leader=2, isr=(2, 3)))
    assert balance_leaders(facts(absent)).records == []  # the first replica is not in sync
    lost = cluster(partition(isr=(3,), leader=-1), fenced=(3,))
    assert balance_leaders(facts(lost)).records == []
    allowed = after(lost, [ConfigRecord(2, TOPIC, "unclean.leader.election.enable", "true")])
    now = only(after(allowed, balance_leaders(facts(allowed)).records))
    assert (now.leader, now.isr, now.recovering) == (1, (1,), 1)


def test_leaders_are_balanced_some_at_a_time_until_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_partitions, "MOST_ELECTIONS", 2)
    image, counts = cluster(*(partition(number, leader=2) for number in range(5))), []
    while made := balance_leaders(facts(image)).records:
        counts.append(len(made))
        image = after(image, made)
    assert counts == [2, 2, 1]


def test_a_controller_is_registered_where_the_metadata_have_controllers() -> None:
    registration = ControllerRegistration(3, uuid.UUID(int=3))
    old = after(cluster(), [FeatureLevel("metadata.version", 14)])
    made = register_controller(facts(old), RegisterController(registration))
    assert (made.records, made.answer.code) == ([], ErrorCode.UNSUPPORTED_VERSION)
    new = after(cluster(), [FeatureLevel("metadata.version", 15)])
    made = register_controller(facts(new), RegisterController(registration))
    assert after(new, made.records).controllers == {3: registration}
