"""A cluster of one Apache broker and one of ours, under a controller of Apache Kafka or one of ours: either leads, the other follows,
and either dies. Nothing that was acknowledged is lost, and the two logs are equal to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.differential.apache_kafka import broker as apache
from tests.differential.java_programs.jvm import Jvm
from tests.differential.mixed_cluster import CONTROLLER, OURS, THEIRS, Mixed, wait_until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", params=[False, True], ids=["they_control", "we_control"])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    with Mixed(tmp_path_factory.mktemp("mixed"), our_controller=request.param) as cluster:
        yield cluster


@pytest.mark.parametrize("replicas", [[THEIRS, OURS], [OURS, THEIRS]], ids=["they lead", "we lead"])
def test_what_all_replicas_acknowledged_is_the_same_on_both_to_the_byte(mixed: Mixed, replicas: list[int]) -> None:
    name = f"led-by-{replicas[0]}"
    mixed.create(name, replicas)
    assert mixed.write(name, range(200)) == list(range(200))
    mixed.await_partition(name, replicas[0], {THEIRS, OURS})
    assert mixed.read(name) == list(range(200))
    mixed.await_equal_logs(name)


def test_their_leader_dies_and_we_go_on_with_its_log(mixed: Mixed) -> None:
    mixed.create("their-death", [THEIRS, OURS])
    before = mixed.write("their-death", range(500))
    mixed.theirs.kill()
    mixed.await_partition("their-death", OURS, {OURS})
    after = mixed.write("their-death", range(500, 700))
    assert before + after == list(range(700))
    mixed.theirs.start()
    mixed.theirs.await_broker()
    mixed.await_partition("their-death", OURS, {THEIRS, OURS})
    assert mixed.read("their-death") == list(range(700))
    mixed.await_equal_logs("their-death")


def test_our_leader_dies_and_they_go_on_with_our_log(mixed: Mixed) -> None:
    mixed.create("our-death", [OURS, THEIRS])
    before = mixed.write("our-death", range(500))
    mixed.ours.kill()
    mixed.await_partition("our-death", THEIRS, {THEIRS})
    after = mixed.write("our-death", range(500, 700))
    assert before + after == list(range(700))
    mixed.ours.start()
    mixed.await_partition("our-death", THEIRS, {THEIRS, OURS})
    assert mixed.read("our-death") == list(range(700))
    mixed.await_equal_logs("our-death")


def test_records_that_only_our_dead_leader_had_are_truncated(mixed: Mixed) -> None:
    # They are elected only if the leader is dead before the lag time of 2 s has passed. Beside load it may be later: then they have left the ISR,
    # nobody is elected, and the test tries again with another topic.
    name = next(topic for number in range(5) if died_with_records_of_its_own(mixed, topic := f"diverging-{number}"))
    mixed.write(name, range(200, 300))
    mixed.ours.start()
    mixed.await_partition(name, THEIRS, {THEIRS, OURS})
    found = mixed.read(name)
    copied = len(found) - 100
    assert 100 <= copied < 105
    assert found == [*range(copied), *range(200, 300)]
    mixed.await_equal_logs(name)


def died_with_records_of_its_own(mixed: Mixed, name: str) -> bool:
    """Kill our leader while they stand still, behind records that only we have. Return whether they are elected without some of them; if not, both are
    as before."""
    mixed.create(name, [OURS, THEIRS])
    producer = mixed.producer(acks="1")
    assert mixed.write(name, range(100), producer=producer) == list(range(100))
    mixed.await_partition(name, OURS, {THEIRS, OURS})
    mixed.await_equal_logs(name)
    mixed.theirs.pause()
    # The fetch that waits is answered with the first record, and is read from the socket after the pause. Beside load our broker may come to it
    # later, and answer it with more of them.
    alone = mixed.write(name, range(100, 101), producer=producer)
    alone += mixed.write(name, range(101, 105), producer=producer)
    mixed.ours.kill()
    assert alone == list(range(100, 105))
    mixed.theirs.resume()
    if mixed.is_elected(name, THEIRS, {OURS}):
        mixed.await_partition(name, THEIRS, {THEIRS})
        if len(mixed.read(name)) < 105:
            return True
        mixed.ours.start()
        mixed.await_partition(name, THEIRS, {THEIRS, OURS})
        return False
    mixed.ours.start()
    mixed.await_partition(name, OURS, {THEIRS, OURS})
    return False


def test_a_follower_that_stands_still_leaves_the_isr_and_comes_back(mixed: Mixed) -> None:
    mixed.create("their-lag", [OURS, THEIRS])
    mixed.write("their-lag", range(10))
    mixed.theirs.pause()
    assert mixed.write("their-lag", range(10, 20)) == list(range(10, 20))  # as soon as they are out of the ISR
    mixed.theirs.resume()
    mixed.await_partition("their-lag", OURS, {THEIRS, OURS})
    mixed.await_equal_logs("their-lag")

    mixed.create("our-lag", [THEIRS, OURS])
    mixed.write("our-lag", range(10))
    mixed.ours.pause()
    assert mixed.write("our-lag", range(10, 20)) == list(range(10, 20))
    mixed.ours.resume()
    mixed.await_partition("our-lag", THEIRS, {THEIRS, OURS})
    mixed.await_equal_logs("our-lag")


def test_either_leaves_in_order_without_a_gap_for_writers(mixed: Mixed) -> None:
    mixed.create("departure", [OURS, THEIRS])
    assert mixed.write("departure", range(50)) == list(range(50))
    mixed.ours.stop()
    mixed.await_partition("departure", THEIRS, {THEIRS})
    assert mixed.write("departure", range(50, 100)) == list(range(50, 100))
    mixed.ours.start()
    mixed.await_partition("departure", THEIRS, {THEIRS, OURS})
    mixed.theirs.stop()
    mixed.await_partition("departure", OURS, {OURS})
    assert mixed.write("departure", range(100, 150)) == list(range(100, 150))
    mixed.theirs.start()
    mixed.theirs.await_broker()
    mixed.await_partition("departure", OURS, {THEIRS, OURS})
    assert mixed.read("departure") == list(range(150))
    mixed.await_equal_logs("departure")


def test_administration_through_our_broker_reaches_the_controller(mixed: Mixed) -> None:
    admin = AdminClient({"bootstrap.servers": mixed.ours.address, "log_level": 0})
    admin.create_topics([NewTopic("made-here", 1, 2, config={"retention.ms": "77000"})])["made-here"].result(30)
    told = apache.tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        mixed.ours.address,
        "--describe",
        "--topic",
        "made-here",
    )
    assert "ReplicationFactor: 2" in told
    assert "retention.ms=77000" in told
    with pytest.raises(confluent_kafka.KafkaException, match="already exists"):
        admin.create_topics([NewTopic("made-here", 1, 2)])["made-here"].result(30)
    admin.delete_topics(["made-here"])["made-here"].result(30)
    wait_until(lambda: not (mixed.ours.folder / "made-here-0").exists(), lambda: "the folder is still there")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_and_producer_ids_work_wherever_their_coordinators_are(mixed: Mixed, protocol: str) -> None:
    topic = f"grouped-{protocol}"
    mixed.create(topic, [OURS, THEIRS])
    mixed.write(topic, range(30))
    for group in ("a", "b", "c", "d", "e", "f"):  # the four partitions of the offsets topic are on both brokers
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": mixed.servers,
                "group.id": f"{protocol}-{group}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        found = [int(m.value()) for m in consumer.consume(30, timeout=60)]
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30)
        consumer.close()
        assert (found, committed.offset) == (list(range(30)), 30)
    assert {mixed.leader_of("__consumer_offsets", each) for each in range(4)} >= {THEIRS, OURS}


def test_transactions_span_partitions_of_both_brokers_wherever_they_are_coordinated(mixed: Mixed) -> None:
    mixed.create("txn-theirs", [THEIRS, OURS])
    mixed.create("txn-ours", [OURS, THEIRS])
    ids = [f"id-{number}" for number in range(6)]  # the two partitions of the transaction topic are on both brokers
    for number, name in enumerate(ids):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": mixed.servers,
                "transactional.id": name,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        for keeps in (True, False, True):
            producer.begin_transaction()
            for topic in ("txn-theirs", "txn-ours"):
                producer.produce(topic, str(number if keeps else -1).encode(), partition=0)
            producer.flush(60)
            if keeps:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    coordinators = {mixed.leader_of("__transaction_state", each) for each in range(2)}
    assert coordinators <= {THEIRS, OURS, CONTROLLER}
    assert len(coordinators) == 2
    expected = [number for number in range(len(ids)) for _ in range(2)]
    assert mixed.read_committed("txn-theirs", len(expected)) == expected
    assert mixed.read_committed("txn-ours", len(expected)) == expected
    mixed.await_equal_logs("txn-theirs")
    mixed.await_equal_logs("txn-ours")


def test_java_producers_of_transaction_version_2_write_to_both_brokers_in_one_transaction(mixed: Mixed) -> None:
    """Either leader has the partition added by a coordinator on either broker, and either coordinator has the markers written on both."""
    new = NewTopic("txn-2", 2, replica_assignment=[[THEIRS, OURS], [OURS, THEIRS]])
    mixed.admin.create_topics([new])["txn-2"].result(30)
    count, ids = 9, [f"java-{number}" for number in range(4)]
    with Jvm() as jvm:
        for name in ids:
            said = jvm.run("Many", mixed.servers, "txn-2", name, count)
            assert said.replace(" ", "").strip().isdigit(), said
        found = jvm.run("Read", mixed.servers, "txn-2")
    values = [f"{name} {n}" for name in ids for n in range(count) if n % 3 != 2]
    assert found.strip() == f"{{0=[{', '.join(values)}], 1=[{', '.join(values)}]}}"


def test_a_partition_with_records_moves_to_us_and_away_again(mixed: Mixed, tmp_path: Path) -> None:
    mixed.create("moving", [THEIRS])
    mixed.write("moving", range(300))

    def reassign(*replicas: int) -> None:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": "moving", "partition": 0, "replicas": replicas}]}))
        apache.tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", mixed.ours.address, "--reassignment-json-file", str(plan), "--execute"),
        )

    reassign(THEIRS, OURS)
    mixed.await_partition("moving", THEIRS, {THEIRS, OURS})
    reassign(OURS)
    mixed.await_partition("moving", OURS, {OURS})
    assert mixed.write("moving", range(300, 400)) == list(range(300, 400))
    assert mixed.read("moving") == list(range(400))
    reassign(THEIRS)
    mixed.await_partition("moving", THEIRS, {THEIRS})
    assert mixed.read("moving") == list(range(400))
    wait_until(lambda: not (mixed.ours.folder / "moving-0").exists(), lambda: "the folder is still there")
