"""Eligible leader replicas (KIP-966): who may lead when the ISR has become smaller than min.insync.replicas."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.controller.command import AlterConfigs, ConfigChange, ResourceChange
from streamactors.broker.controller.rules.election_rules import with_broker, without_broker
from streamactors.broker.controller.rules.feature_rules import (
    SAFE_DOWNGRADE,
    FeatureUpdate,
    UpdateFeatures,
    update_features,
)
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.controller.rules.release_levels import first_features
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistrationChange,
    ClearElr,
    ConfigRecord,
    FeatureLevel,
    PartitionRecord,
)
from streamactors.broker.replication.isr_requests import AlterPartition, IsrProposal
from tests.broker.controller.clusters import TOPIC, TOPIC_ID, after, cluster, facts, only, partition

ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"


def never(_: str) -> bool:
    return False


def elr_cluster(made: PartitionRecord | None = None, *, min_isr: int = 2) -> MetadataImage:
    image = cluster(partition() if made is None else made)
    on = [FeatureLevel("metadata.version", 27), FeatureLevel(ELR, 1), ConfigRecord(2, TOPIC, MIN_ISR, str(min_isr))]
    return after(image, on)


def fence(image: MetadataImage, broker: int, *, crashed: bool = False) -> MetadataImage:
    changed = without_broker(image, broker, never, crashed=crashed)
    return after(image, [*changed, BrokerRegistrationChange(broker, 10 + broker, fenced=1)])


def unfence(image: MetadataImage, broker: int) -> MetadataImage:
    elected = with_broker(image, broker, never)
    return after(image, [BrokerRegistrationChange(broker, 10 + broker, fenced=-1), *elected])


def seen(image: MetadataImage) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    now = only(image)
    return now.leader, now.isr, now.elr, now.last_known_elr


def test_who_leaves_an_isr_that_is_too_small_stays_eligible_and_the_last_one_too() -> None:
    image = fence(elr_cluster(), 1)
    assert seen(image) == (2, (2, 3), (), ())  # two are enough
    image = fence(image, 2)
    assert seen(image) == (3, (3,), (2,), ())
    image = fence(image, 3)
    assert seen(image) == (NO_LEADER, (), (2, 3), (3,))
    assert seen(unfence(image, 1)) == (NO_LEADER, (), (2, 3), (3,))  # 1 may lack what two have acknowledged
    assert seen(unfence(image, 2)) == (2, (2,), (3,), ())  # a clean election
    assert only(unfence(image, 2)).recovering == 0


def test_the_eligible_are_no_longer_eligible_when_enough_are_in_sync() -> None:
    image = unfence(fence(fence(elr_cluster(), 1), 2), 2)
    now = only(image)
    assert seen(image) == (3, (3,), (2,), ())
    proposal = IsrProposal(TOPIC_ID, 0, now.leader_epoch, now.partition_epoch, ((2, 12), (3, 13)))
    made = plan(facts(image), AlterPartition(3, 13, (proposal,)))
    assert made.answer.outcomes[0].error == ErrorCode.NONE
    assert seen(after(image, made.records)) == (3, (2, 3), (), ())


def test_a_leader_that_shrinks_its_isr_makes_the_lagging_follower_eligible() -> None:
    image = elr_cluster(partition(isr=(1, 2)))
    proposal = IsrProposal(TOPIC_ID, 0, 5, 7, ((1, 11),))
    made = plan(facts(image), AlterPartition(1, 11, (proposal,)))
    assert seen(after(image, made.records)) == (1, (1,), (2,), ())


def test_a_broker_that_crashed_is_not_eligible() -> None:
    image = fence(fence(fence(elr_cluster(), 1), 2), 3)
    assert seen(after(image, without_broker(image, 2, never, crashed=True))) == (NO_LEADER, (), (3,), (3,))


def test_the_last_known_leader_leads_uncleanly_when_nobody_is_eligible() -> None:
    """A lone replica after kill -9, as Apache Kafka does it: no ISR, nobody eligible, then the same broker, RECOVERING."""
    image = fence(elr_cluster(partition(replicas=(2,)), min_isr=1), 2)
    assert seen(image) == (NO_LEADER, (), (2,), (2,))
    image = after(image, without_broker(image, 2, never, crashed=True))
    assert seen(image) == (NO_LEADER, (), (), (2,))
    image = unfence(image, 2)
    assert seen(image) == (2, (2,), (), ())
    assert only(image).recovering == 1


def test_without_the_feature_the_last_member_stays_in_the_isr() -> None:
    image = cluster(partition(replicas=(2,)))
    assert seen(fence(image, 2)) == (NO_LEADER, (2,), (), ())


def test_another_min_isr_clears_who_was_eligible() -> None:
    image = fence(fence(elr_cluster(), 1), 2)
    change = ResourceChange(2, TOPIC, (ConfigChange(MIN_ISR, "1"),))
    made = plan(facts(image, me=3), AlterConfigs((change,)))
    assert ClearElr(TOPIC) in made.records
    assert seen(after(image, made.records)) == (3, (3,), (), ())
    own = ResourceChange(4, "3", (ConfigChange(MIN_ISR, "1"),))
    (outcome,) = plan(facts(image, me=3), AlterConfigs((own,))).answer
    assert outcome.message == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."


def test_the_feature_needs_its_metadata_version_and_one_min_isr_for_all() -> None:
    update = UpdateFeatures((FeatureUpdate(ELR, 1),))
    old = after(cluster(), [FeatureLevel("metadata.version", 19)])
    refused = update_features(facts(old), update)
    assert "could not be set to 1 because it depends on metadata.version level 23" in refused.answer.message
    first = after(cluster(), [FeatureLevel("metadata.version", 23)])
    assert FeatureLevel(ELR, 1) in update_features(facts(first), update).records
    new = after(cluster(), [FeatureLevel("metadata.version", 27)])
    assert update_features(facts(new), update).records == [FeatureLevel(ELR, 1), ConfigRecord(4, "", MIN_ISR, "1")]
    on = after(new, [FeatureLevel(ELR, 1)])
    off = UpdateFeatures((FeatureUpdate(ELR, 0, SAFE_DOWNGRADE),))
    assert update_features(facts(on), off).records == [FeatureLevel(ELR, 0), ClearElr("")]
    formatted = first_features([FeatureLevel("metadata.version", 27), FeatureLevel(ELR, 1)], 2)
    assert formatted[-1] == ConfigRecord(4, "", MIN_ISR, "2")


@settings(max_examples=200)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["fence", "crash", "unfence"]), st.integers(1, 3)), max_size=12),
)
def test_isr_and_eligible_are_apart_and_a_leader_is_one_of_the_isr(min_isr: int, steps: list[tuple[str, int]]) -> None:
    image = elr_cluster(min_isr=min_isr)
    for step, broker in steps:
        fenced = image.brokers[broker].fenced
        if step == "unfence" and fenced:
            image = unfence(image, broker)
        elif step == "fence" and not fenced:
            image = fence(image, broker)
        elif step == "crash" and fenced:
            image = after(image, without_broker(image, broker, never, crashed=True))
        now = only(image)
        assert not set(now.isr) & set(now.elr)
        assert now.leader == NO_LEADER or now.leader in now.isr
        assert len(now.isr) < min_isr or not now.elr
        if now.leader != NO_LEADER:
            assert not image.brokers[now.leader].fenced
        if not now.isr and not now.elr:
            assert len(now.last_known_elr) == 1  # somebody can lead again
