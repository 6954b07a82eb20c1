"""Which partitions an election may change when a broker comes or goes, whatever the partitions looked like before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.controller.rules.election_rules import preferred, with_broker, without_broker
from streamactors.broker.metadata.image import NO_LEADER
from streamactors.broker.metadata.metadata_record import PartitionRecord
from tests.broker.controller.clusters import cluster, partition

BROKERS = (1, 2, 3, 4)


@st.composite
def partitions(draw: st.DrawFn, number: int = 0) -> PartitionRecord:
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 3))])
    isr = tuple(each for each in replicas if draw(st.booleans()))
    leader = draw(st.sampled_from([NO_LEADER, *replicas]))
    return partition(number, replicas=replicas, isr=isr, leader=leader)


SEVERAL = st.tuples(partitions(0), partitions(1), partitions(2))
FENCED = st.sets(st.sampled_from(BROKERS))
BROKER = st.sampled_from(BROKERS)


@given(SEVERAL, FENCED, BROKER, st.booleans())
def test_a_broker_that_comes_changes_only_its_partitions_without_a_leader(
    several: tuple[PartitionRecord, ...], fenced: set[int], broker: int, unclean: bool
) -> None:
    image = cluster(*several, brokers=BROKERS, fenced=fenced | {broker})
    alive = (set(BROKERS) - fenced) | {broker}
    for change in with_broker(image, broker, lambda _: unclean):
        before = several[change.partition]
        assert before.leader == NO_LEADER
        assert broker in before.replicas
        assert change.leader in alive & set(before.replicas)
        assert unclean or change.leader in before.isr


@given(SEVERAL, FENCED, BROKER, st.booleans())
def test_a_broker_that_goes_changes_only_partitions_that_it_led_or_was_in_sync_for(
    several: tuple[PartitionRecord, ...], fenced: set[int], broker: int, unclean: bool
) -> None:
    image = cluster(*several, brokers=BROKERS, fenced=fenced)
    alive = set(BROKERS) - fenced - {broker}
    changes = {change.partition: change for change in without_broker(image, broker, lambda _: unclean)}
    for number, before in enumerate(several):
        change = changes.get(number)
        leader = before.leader if change is None or change.leader is None else change.leader
        isr = before.isr if change is None or change.isr is None else change.isr
        if broker == before.leader or broker in before.isr:
            assert leader == NO_LEADER or leader in alive & set(isr)
            assert broker not in isr or before.isr == (broker,), "only the last member stays in the ISR"
        else:
            assert change is None


@given(partitions(), FENCED)
def test_a_preferred_leader_is_the_first_replica_alive_and_in_sync(made: PartitionRecord, fenced: set[int]) -> None:
    first = made.replicas[0]
    change = preferred(made, lambda broker: broker not in fenced)
    wanted = first != made.leader and first in made.isr and first not in fenced
    assert (None if change is None else change.leader) == (first if wanted else None)
