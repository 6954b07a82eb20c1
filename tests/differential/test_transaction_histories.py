"""Random histories of transactions on Apache Kafka and on this broker: the same answers, the same records of `__transaction_state`, the same
batches and markers, with transaction.version 2, 1 and 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamactors.broker import Cluster
from tests.broker.wire import WireClient
from tests.differential import transaction_histories as histories
from tests.differential.apache_kafka import broker as apache
from tests.differential.coordinator_steps import Step, Until, play
from tests.differential.history_count import histories as count_of
from tests.differential.history_count import within_s
from tests.differential.test_coordinator_answers import SETTINGS

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(within_s(20)),
]

SEEDS = range(count_of(20))


class Played(NamedTuple):
    """What one broker answered and wrote."""

    outcomes: dict[str, Any]
    states: dict[str, list[Any]]
    data: dict[int, list[Any]]


def script(level: int) -> list[Step | Until]:
    """Return the histories. Producers of the protocol of version 2 exist only at that level, as with real clients."""
    whole: list[Step | Until] = [*histories.beginning([f"g-{seed}" for seed in SEEDS])]
    for seed in SEEDS:
        whole += histories.history(seed, bumps=level == 2)
    return whole


def played(address: str, steps: Sequence[Step | Until]) -> Played:
    seen = play(address, steps)
    names = histories.producer_names(steps, seen)
    host, port = address.split(":")
    with WireClient(host, int(port)) as client:
        return Played(
            {
                step.name: histories.outcome(step, seen, names)
                for step in steps
                if isinstance(step, Step) and step.key in histories.COMPARED
            },
            {name: histories.comparable(kept, names) for name, kept in histories.states(client).items()},
            histories.data(client, names),
        )


@pytest.fixture(scope="module", params=[2, 1, 0])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Played, Played]]:
    """What Apache Kafka and this broker made of the same histories, in a cluster of this transaction.version."""
    steps = script(request.param)
    folder = Path(tmp_path_factory.mktemp("kafka")) / "data"
    kafka = apache.ApacheKafka(folder, features={"transaction.version": request.param})
    kafka.start()
    try:
        theirs = played(kafka.address, steps)
    finally:
        kafka.kill()
    with Cluster(process=True, listen="127.0.0.1:0", config=SETTINGS) as cluster:
        at_level(cluster, request.param)
        yield theirs, played(cluster.bootstrap_servers, steps)


def at_level(cluster: Cluster, level: int) -> None:
    """Lower the cluster's transaction.version."""
    host, port = cluster.bootstrap_servers.split(":")
    if level < 2:
        update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 2}
        with WireClient(host, int(port)) as client:
            assert client.call(57, 1, {"timeout_ms": 10_000, "feature_updates": [update]}).error_code == 0


def test_the_answers_are_apache_kafkas(both: tuple[Played, Played]) -> None:
    theirs, ours = both
    print(f"{len(SEEDS)} histories, {len(theirs.outcomes)} answers")
    assert {
        name: (each, ours.outcomes[name]) for name, each in theirs.outcomes.items() if each != ours.outcomes[name]
    } == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_records_of_the_transactions_are_apache_kafkas(both: tuple[Played, Played], seed: int) -> None:
    theirs, ours = both
    assert ours.states[f"h-{seed}"] == theirs.states[f"h-{seed}"]


def test_the_batches_and_the_markers_are_apache_kafkas(both: tuple[Played, Played]) -> None:
    theirs, ours = both
    assert ours.data == theirs.data
