"""Dead letter queues of share groups on Apache Kafka and on this broker: the same histories leave the same records in the queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient, wait_until
from tests.differential.apache_kafka import broker as apache
from tests.differential.share_histories import History, ServerFailed
from tests.differential.test_share_histories import CONSOLE, SETTINGS

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

GROUP_RESOURCE = 32
ARCHIVING, DONE = 3, (2, 4)
QUEUES = {**SETTINGS, "errors.deadletterqueue.auto.create.topics.enable": "true"}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where Apache Kafka and where this broker can be reached."""
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data", settings=QUEUES)
    kafka.start()
    try:
        with Cluster(process=True, config=QUEUES) as cluster:
            yield kafka.address, cluster.bootstrap_servers
    finally:
        kafka.kill()


def configure(address: str, group: str, **settings: str) -> tuple[int, str | None]:
    """Set settings of a group; return the error."""
    host, _, port = address.partition(":")
    configs = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in settings.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
    with WireClient(host, int(port)) as client:
        answer = client.call(44, 1, {"resources": [resource], "validate_only": False}).responses[0]
    return answer.error_code, answer.error_message


def letters(address: str, topic: str) -> list[Any]:
    """Return headers, key and value of each record of a dead letter queue, by the offsets of the originals."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        while len(found) < end:
            found += [(each.headers(), each.key(), each.value()) for each in consumer.consume(100, 1.0)]
    finally:
        consumer.close()
    return sorted(found, key=lambda each: int(dict(each[0])["__dlq.errors.offset"]))


class LetterHistory(History):
    """A history of a group with a dead letter queue. What is stored is compared when nothing is on its way to the queue."""

    def _begin(self) -> None:
        copies = "true" if self.random.random() < 0.5 else "false"
        address = f"{self.host}:{self.port}"
        settings = {
            "errors_deadletterqueue_topic_name": f"dlq.{self.group}",
            "errors_deadletterqueue_copy_record_enable": copies,
            "share_delivery_count_limit": str(self.random.choice((2, 3, 5))),
        }
        assert (
            configure(address, self.group, **settings) == (0, None)
            or configure(address, self.group, **settings)[0] == 0
        )
        super()._begin()

    def _stored(self) -> Any:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = super()._stored()
            if all(state != ARCHIVING for _, _, state, _ in found[3]):
                return _settled(*found)
            time.sleep(0.02)
        raise AssertionError(f"{self.group}: the queue takes nothing: {found}")


def _settled(error: int, epoch: int, start: int, batches: list[Any]) -> Any:
    """Move the start over records that are done. Letters that are written at one time may be stored as done with the start before them."""
    while batches and batches[0][0] == start and batches[0][2] in DONE:
        start = batches.pop(0)[1] + 1
    return error, epoch, start, batches


def letter_history(address: str, group: str, seed: int, steps: int) -> tuple[list[Any], list[Any]]:
    """Run one history on a broker; return what it told, and the dead letters."""
    host, _, port = address.partition(":")
    run = LetterHistory(host, int(port), group, Random(seed))
    try:
        told = run.run(steps)
    except ServerFailed:
        told = [*run.told, "server failed"]
    finally:
        run.end()
    admin = AdminClient({"bootstrap.servers": address})
    name = f"dlq.{group}"
    return told, letters(address, name) if name in admin.list_topics(timeout=30).topics else []


def compared(brokers: tuple[str, str], group: str, seed: int, steps: int = 40) -> int:
    """Run one history on both brokers and compare; return the number of dead letters."""
    (theirs, their_letters), (ours, our_letters) = (letter_history(each, group, seed, steps) for each in brokers)
    failed = theirs[-1] == "server failed"
    for at, (expected, got) in enumerate(zip(theirs[:-1] if failed else theirs, ours, strict=False)):
        assert got == expected, f"history {seed}, step {at}: {theirs[:at]}"
    if failed:
        return 0
    assert our_letters == their_letters, f"history {seed}"
    return len(our_letters)


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_random_histories_leave_the_same_dead_letters(brokers: tuple[str, str], first: int) -> None:
    assert sum(compared(brokers, f"d{seed}", seed) for seed in range(first, first + 5)) > 5


@pytest.mark.parametrize(
    "settings",
    [
        {"errors_deadletterqueue_topic_name": "__consumer_offsets"},
        {"errors_deadletterqueue_topic_name": "no spaces"},
        {"errors_deadletterqueue_topic_name": "plain"},
        {"errors_deadletterqueue_topic_name": ""},
        {"errors_deadletterqueue_copy_record_enable": "yes"},
    ],
)
def test_settings_are_taken_or_refused_alike(brokers: tuple[str, str], settings: dict[str, str]) -> None:
    theirs, ours = (configure(each, "settings", **settings) for each in brokers)
    assert ours[0] == theirs[0], (theirs, ours)


def test_what_apaches_share_consumer_rejects_is_in_the_queue_of_both(brokers: tuple[str, str]) -> None:
    found = []
    for address in brokers:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("poisoned", 1, 1)])["poisoned"].result()
        producer = Producer({"bootstrap.servers": address})
        for n in range(20):
            producer.produce("poisoned", b"%d" % n, key=b"k")
        producer.flush()
        settings = {
            "share_auto_offset_reset": "earliest",
            "errors_deadletterqueue_topic_name": "dlq.poisoned",
            "errors_deadletterqueue_copy_record_enable": "true",
        }
        assert configure(address, "rejecting", **settings)[0] == ErrorCode.NONE
        of = ("--bootstrap-server", address, "--topic", "poisoned", "--group", "rejecting")
        apache.tool(CONSOLE, *of, "--reject", "--max-messages", "20", "--timeout-ms", "60000", may_fail=True)
        wait_until(lambda admin=admin: "dlq.poisoned" in admin.list_topics(timeout=30).topics, timeout_s=60)
        wait_until(lambda address=address: len(letters(address, "dlq.poisoned")) >= 20, timeout_s=60)
        found.append(letters(address, "dlq.poisoned"))
    assert found[1] == found[0]
    assert [each[1:] for each in found[1]] == [(b"k", b"%d" % n) for n in range(20)]
