"""Share groups on Apache Kafka and on this broker: random histories have the same deliveries, errors and stored states; its tools print the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache
from tests.differential.history_count import histories
from tests.differential.share_histories import history

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.record.lock.duration.ms": "60000",
}
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where Apache Kafka and where this broker can be reached."""
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data", settings=SETTINGS)
    kafka.start()
    try:
        with Cluster(process=True, config=SETTINGS) as cluster:
            yield kafka.address, cluster.bootstrap_servers
    finally:
        kafka.kill()


@pytest.mark.parametrize("first", range(0, histories(60), 10))
def test_random_histories_are_the_same(brokers: tuple[str, str], first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 10):
        theirs, ours = (history(address, f"g{seed}", seed, 40) for address in brokers)
        if theirs[-1] == "server failed":
            theirs.pop()
            assert len(ours) > len(theirs), "this broker answers"
        else:
            ours, theirs = [*ours, "ended"], [*theirs, "ended"]
        for at, (expected, got) in enumerate(zip(theirs, ours, strict=False)):
            assert got == expected, f"history {seed}, step {at}: {theirs[:at]}"
        seen.update(str(each[1]) for each in theirs if isinstance(each[1], str))
    assert seen["fetch"] > 50
    assert seen["acknowledge"] > 50


def _printed(text: str) -> list[str]:
    plain = re.sub(r"127(\.\d+){3}:\d+", "BROKER", text)
    return [re.sub(r"\s+", " ", line).strip() for line in plain.splitlines() if line.strip()]


def test_the_tools_of_share_groups_print_the_same(brokers: tuple[str, str]) -> None:
    printed = []
    for address in brokers:
        history(address, "tooled", 1, 25)
        of = ("--bootstrap-server", address)
        topic = ("--group", "tooled", "--topic", "tooled-topic")
        lines = []
        for words in (
            ("--reset-offsets", *topic, "--to-earliest", "--execute"),
            ("--list",),
            ("--describe", "--group", "tooled"),
            ("--describe", "--group", "tooled", "--state"),
            ("--delete-offsets", *topic),
            ("--describe", "--group", "tooled"),
            ("--delete", "--group", "tooled"),
            ("--describe", "--group", "tooled"),
        ):
            lines += [words[0], *_printed(apache.tool(GROUPS, *of, *words, may_fail=True))]
        printed.append(lines)
    assert printed[1] == printed[0]
