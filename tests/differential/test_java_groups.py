"""Java's clients and Apache Kafka's own group and transaction tools, on Apache Kafka and on this broker: what they do and print is the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.broker import Cluster
from tests.broker.wire import WireClient, wait_until
from tests.compat.kafka_shims import kafka_scripts
from tests.differential.apache_kafka import broker as apache
from tests.differential.java_programs.jvm import Jvm

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

ASSIGNORS = ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor")
GROUPS, TRANSACTIONS = "consumer.group.ConsumerGroupCommand", "TransactionsCommand"
# What two brokers cannot have in common: ids of members, ports, times.
_PRIVATE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"127(\.\d+){3}:\d+"), "BROKER"),
    (re.compile(r"\b1[78]\d{11}\b(\s+\d+\s+)?"), "TIME "),  # and how long a transaction has been open
    (re.compile(r"^\tat .*\n", re.MULTILINE), ""),
)

Program = Callable[..., str]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with Jvm() as jvm:
        yield jvm


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where Apache Kafka and where this broker can be reached."""
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    kafka.start()
    settings = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    try:
        with Cluster(process=True, config=settings) as cluster:
            yield kafka.address, cluster.bootstrap_servers
    finally:
        kafka.kill()


def topic(bootstrap: str, name: str, partitions: int, records: int = 0) -> None:
    """Make a topic with numbered records, dealt to its partitions in turn."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(name, partitions, 1)]).values()
    created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        producer.produce(name, f"{number:03}", partition=number % partitions)
    assert producer.flush(30) == 0


def public(text: str) -> list[str]:
    """Return what a tool printed, with its columns one space apart, in an order of our own."""
    for pattern, name in _PRIVATE:
        text = pattern.sub(name, text)
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def test_a_java_producers_transactions(jvm: Jvm, brokers: tuple[str, str]) -> None:
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "transactions", 2)
        said.append(jvm.run("Transactions", bootstrap, "transactions"))
    committed = (
        "{0=[committed 0, committed 2, committed 4, committed again 0, committed again 2, committed again 4], "
        "1=[committed 1, committed 3, committed again 1, committed again 3, of the second]}"
    )
    assert f"the first is fenced\nread_committed {committed}\n" in said[1]
    assert said[0] == said[1]


def test_java_producers_go_on_while_the_level_of_their_protocol_changes(jvm: Jvm) -> None:
    # A producer learns of the level when it connects; one that is there keeps its protocol, and one that comes later has the other one.
    count = 60
    with Cluster(process=True) as cluster:
        topic(cluster.bootstrap_servers, "levels", 2)
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client, Jvm() as second, ThreadPoolExecutor(1) as background:
            for number, level in enumerate((0, 2, 1, 2)):
                running = background.submit(
                    second.run, "Many", cluster.bootstrap_servers, "levels", f"a{number}", count
                )
                kind = 1 if level > 1 else 2
                update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": kind}
                assert client.call(57, 1, {"timeout_ms": 10_000, "feature_updates": [update]}).error_code == 0
                said = jvm.run("Many", cluster.bootstrap_servers, "levels", f"b{number}", count)
                for each in (said, running.result()):
                    assert each.endswith(" 0\n"), each  # nothing had to be repeated
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "levels", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition("levels", partition, 0) for partition in range(2)])
        found: list[tuple[int, str]] = []
        ended = 0
        while ended < 2:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                found.append((message.partition(), message.value().decode()))
            else:
                ended += 1
        consumer.close()
    expected = [f"{who}{level} {n}" for who in "ab" for level in range(4) for n in range(count) if n % 3 != 2]
    assert sorted(found) == sorted((partition, value) for partition in range(2) for value in expected)


def test_a_java_client_copies_with_its_offsets_in_the_transaction(jvm: Jvm, brokers: tuple[str, str]) -> None:
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "copy-in", 2, 20)
        topic(bootstrap, "copy-out", 2)
        said.append(jvm.run("Copy", bootstrap, "copy-in", "copy-out", 20))
    assert said[1].startswith("{0=10, 1=10}\n{0=[000!, 002!, ")
    assert said[0] == said[1]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_java_consumers_share_a_topic(jvm: Jvm, brokers: tuple[str, str], assignor: str) -> None:
    said = []
    for bootstrap in brokers:
        name = f"shared-{assignor}"
        topic(bootstrap, name, 4, 20)
        said.append(jvm.run("Group", bootstrap, name, f"org.apache.kafka.clients.consumer.{assignor}", 20))
    every = ", ".join(f"{number:03}" for number in range(20))
    assert said[1] == f"each has two of four\nthe first has all four\n[{every}]\n"
    assert said[0] == said[1]


def test_the_console_consumer_goes_on_where_its_group_stopped(jvm: Jvm, brokers: tuple[str, str]) -> None:
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "console", 1, 10)
        asked = ("--bootstrap-server", bootstrap, "--topic", "console", "--group", "console", "--from-beginning")
        said.append([jvm.run("consumer.ConsoleConsumer", *asked, "--max-messages", count) for count in (4, 6)])
    # since 4.4 a line that recommends the newer protocol comes first
    numbers = [[line for line in each.splitlines() if line.isdigit()] for each in said[1]]
    assert numbers == [[f"{number:03}" for number in part] for part in (range(4), range(4, 10))]
    assert said[0] == said[1]


def group_commands() -> list[tuple[str, ...]]:
    """What one asks of a group without members, in order; the last ones delete it."""
    reset = ("--reset-offsets", "--group", "g", "--topic", "tools")
    return [
        ("--list",),
        ("--list", "--state"),
        ("--list", "--state", "Empty,Stable"),
        ("--list", "--state", "stable"),
        ("--list", "--state", "strange"),
        ("--list", "--type"),
        ("--list", "--type", "consumer"),
        ("--describe", "--group", "g"),
        ("--describe", "--group", "g", "--offsets", "--verbose"),
        ("--describe", "--group", "g", "--members"),
        ("--describe", "--group", "g", "--state"),
        ("--describe", "--group", "nobody"),
        ("--describe", "--group", "nobody", "--state"),
        ("--describe", "--group", "nobody", "--members"),
        ("--describe", "--all-groups"),
        *(
            (*reset, *where, "--dry-run")
            for where in (
                ("--to-earliest",),
                ("--to-latest",),
                ("--to-current",),
                ("--to-offset", "2"),
                ("--to-offset", "99"),
                ("--shift-by", "-1"),
                ("--shift-by", "99"),
                ("--to-datetime", "2099-01-01T00:00:00.000"),
                ("--by-duration", "PT1H"),
            )
        ),
        (*reset, "--to-offset", "2", "--execute", "--export"),
        ("--describe", "--group", "g"),
        ("--reset-offsets", "--group", "made", "--topic", "tools:1", "--to-latest", "--execute"),
        ("--describe", "--group", "made"),
        ("--reset-offsets", "--group", "g", "--topic", "none", "--to-latest", "--execute"),
        ("--delete-offsets", "--group", "g", "--topic", "tools:0"),
        ("--delete-offsets", "--group", "g", "--topic", "tools:9"),
        ("--delete-offsets", "--group", "g", "--topic", "none"),
        ("--describe", "--group", "g"),
        ("--delete", "--group", "g"),
        ("--delete", "--group", "nobody"),
        ("--delete", "--group", "made", "--topic", "tools"),
        ("--list",),
    ]


def test_kafka_consumer_groups(jvm: Jvm, brokers: tuple[str, str]) -> None:
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "tools", 2, 10)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("tools", 0, 3), TopicPartition("tools", 1, 5)], asynchronous=False)
        consumer.close()
        run = [("--bootstrap-server", bootstrap, *command) for command in group_commands()]
        said.append([public(jvm.run(GROUPS, *command)) for command in run])
    for command, theirs, ours in zip(group_commands(), *said, strict=True):
        assert ours == theirs, command


def test_kafka_consumer_groups_of_a_group_at_work(jvm: Jvm, brokers: tuple[str, str]) -> None:
    commands = [
        ("--describe", "--group", "live"),
        ("--describe", "--group", "live", "--members", "--verbose"),
        ("--describe", "--group", "live", "--state"),
        ("--reset-offsets", "--group", "live", "--topic", "live", "--to-earliest", "--execute"),
        ("--delete-offsets", "--group", "live", "--topic", "live"),
        ("--delete", "--group", "live"),
    ]
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "live", 3, 9)
        settings = {"group.id": "live", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        member = Consumer({"bootstrap.servers": bootstrap, "client.id": "app", "group.instance.id": "one", **settings})
        member.subscribe(["live"])
        wait_until(lambda member=member: member.poll(0.1) is not None, "the first record")
        member.commit(offsets=[TopicPartition("live", 1, 2)], asynchronous=False)
        said.append([public(jvm.run(GROUPS, "--bootstrap-server", bootstrap, *command)) for command in commands])
        member.close()
    for command, theirs, ours in zip(commands, *said, strict=True):
        assert ours == theirs, command


def test_kafka_transactions(jvm: Jvm, brokers: tuple[str, str]) -> None:
    commands = [
        ("list",),
        ("list", "--duration-filter", "3600000"),
        ("describe", "--transactional-id", "open"),
        ("describe", "--transactional-id", "nobody"),
        ("describe-producers", "--topic", "hanging", "--partition", "0"),
        ("find-hanging", "--broker-id", "1", "--topic", "hanging"),
        ("abort", "--topic", "hanging", "--partition", "0", "--start-offset", "99"),
        ("abort", "--topic", "hanging", "--partition", "0", "--start-offset", "0"),
        ("describe-producers", "--topic", "hanging", "--partition", "0"),
    ]
    said = []
    for bootstrap in brokers:
        topic(bootstrap, "hanging", 1)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "open"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("hanging", b"x", partition=0)
        assert producer.flush(30) == 0
        said.append([public(jvm.run(TRANSACTIONS, "--bootstrap-server", bootstrap, *command)) for command in commands])
    for command, theirs, ours in zip(commands, *said, strict=True):
        assert ours == theirs, command


def test_the_scripts_that_stand_in_for_kafkas_print_the_same(
    jvm: Jvm, brokers: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, bootstrap = brokers
    topic(bootstrap, "shims", 2, 10)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shims"})
    consumer.commit(offsets=[TopicPartition("shims", 0, 3), TopicPartition("shims", 1, 5)], asynchronous=False)
    consumer.close()
    settings = {"group.id": "shims-live", "auto.offset.reset": "earliest", "client.id": "app"}
    member = Consumer({"bootstrap.servers": bootstrap, **settings})
    member.subscribe(["shims"])
    wait_until(lambda: member.poll(0.1) is not None, "the first record")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shims"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("shims", b"x", partition=0)
    assert producer.flush(30) == 0
    reset = ("--reset-offsets", "--group", "shims", "--topic", "shims")
    groups: list[tuple[str, ...]] = [
        ("--list",),
        ("--list", "--state"),
        ("--list", "--state", "stable,dead"),
        ("--describe", "--group", "shims"),
        ("--describe", "--group", "shims", "--state"),
        ("--describe", "--group", "shims", "--members"),
        ("--describe", "--group", "shims-live"),
        ("--describe", "--group", "shims-live", "--state"),
        ("--describe", "--group", "shims-live", "--members"),
        ("--describe", "--group", "shims-live", "--members", "--verbose"),
        *((*reset, *where, "--dry-run") for where in (("--to-earliest",), ("--to-offset", "99"), ("--shift-by", "-1"))),
        (*reset, "--to-datetime", "2099-01-01T00:00:00.000", "--execute"),
        ("--describe", "--group", "shims"),
        ("--delete-offsets", "--group", "shims", "--topic", "shims:0"),
    ]
    scripts = [("kafka-consumer-groups.sh", GROUPS, command) for command in groups]
    scripts += [("kafka-transactions.sh", TRANSACTIONS, ("list",))]
    scripts += [("kafka-transactions.sh", TRANSACTIONS, ("describe", "--transactional-id", "shims"))]
    for script, tool, command in scripts:
        theirs = public(jvm.run(tool, "--bootstrap-server", bootstrap, *command))
        assert kafka_scripts.main([script, "--bootstrap-server", bootstrap, *command]) == 0
        ours = public(capsys.readouterr().out)
        assert ours == [line for line in theirs if not line.startswith(("exit code 0", "Warn: "))], command
    member.close()
