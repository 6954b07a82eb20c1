"""`Consumer.shared_source` on Apache Kafka 4.4.0 with its default features, and on this broker: each record is acknowledged, released, rejected and renewed as the broker expects."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors import Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, SharedRecord, SharedSourceSettings
from streamactors.kafka.client.cluster_requests import ClusterRequests
from streamactors.kafka.errors import NoBroker, TopicNotFound
from tests.broker.wire import wait_until
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]
GROUP_CONFIG = 32
LOCKS = {"group.share.min.record.lock.duration.ms": "1000", "group.share.record.lock.duration.ms": "3000"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the broker's certificate, and the authority that has signed it."""
    import trustme
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

    folder = tmp_path_factory.mktemp("certificates")
    made = trustme.CA()
    made.cert_pem.write_to_path(folder / "ca.pem")
    issued = made.issue_cert("localhost", "127.0.0.1")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.pem").write_bytes(text + b"".join(each.bytes() for each in issued.cert_chain_pems))
    return folder


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[apache.ApacheKafka]:
    door = "listener.name.sasl_ssl"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pw";'
    made = apache.ApacheKafka(
        Path(tmp_path_factory.mktemp("kafka")) / "data",
        second_listener="SASL_SSL",
        settings={
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            **LOCKS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority / "server.pem"),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            f"{door}.plain.sasl.jaas.config": login,
        },
    )
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module", params=["Apache Kafka", "ours"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where Apache Kafka can be reached, then where this broker can be."""
    if request.param == "ours":
        with Cluster(process=True, config=LOCKS) as cluster:
            yield cluster.bootstrap_servers
    else:
        yield request.getfixturevalue("kafka").address


class Queue:
    """A new topic with records, and a share group that reads it from the beginning."""

    def __init__(self, servers: str, count: int, partitions: int = 1, **producer: object) -> None:
        self.servers = servers
        self.topic = self.group = f"jobs-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result()
        configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
        resource = {"resource_type": GROUP_CONFIG, "resource_name": self.group, "configs": configs}
        with ClusterRequests(servers) as cluster:
            broker = cluster.brokers()[0]
            answer = cluster.call(broker, 44, 1, {"resources": [resource], "validate_only": False})
        assert answer.responses[0].error_code == 0
        self.write(range(count), **producer)

    def write(self, numbers: range, **producer: object) -> None:
        made = Producer({"bootstrap.servers": self.servers, **producer})
        for n in numbers:
            made.produce(self.topic, b"%d" % n, key=b"k%d" % n, headers=[("n", b"%d" % n)])
        made.flush()

    def settings(self, **how) -> SharedSourceSettings:
        return SharedSourceSettings(self.servers, self.group, **how)

    def run(self, work, **how):
        return Consumer.shared_source(self.settings(**how), self.topic).map(work).to_mat(Sink.ignore(), Keep.both).run()


def until(condition) -> None:
    wait_until(condition, timeout_s=60)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_is_delivered_once_and_accepted(servers: str, codec: str) -> None:
    queue = Queue(servers, 300, 3, **{"compression.type": codec})
    got: list[SharedRecord] = []
    control, done = queue.run(lambda record: got.append(record) or record)
    until(lambda: len(got) >= 300)
    control.drain_and_shutdown(done, timeout=60)
    assert sorted(int(each.value) for each in got) == list(range(300))
    assert all(each.key == b"k" + each.value and each.headers == (("n", each.value),) for each in got)
    assert {each.delivery_count for each in got} == {1}
    shot = control.snapshot()
    assert (shot["accepted"], shot["lost"], shot["locked"]) == (300, 0, 0)


def test_two_members_share_one_partition(servers: str) -> None:
    queue = Queue(servers, 400)
    got: list[list[int]] = [[], []]
    together = threading.Barrier(2, timeout=60)

    def work(mine: list[int]):
        def do(record: SharedRecord) -> SharedRecord:
            if not mine:
                together.wait()  # both hold records of the partition at one time
            mine.append(record.offset)
            return record

        return do

    members = [queue.run(work(mine), max_in_flight=10) for mine in got]
    until(lambda: sum(map(len, got)) >= 400)
    for control, done in members:
        control.drain_and_shutdown(done, timeout=60)
    assert sorted(got[0] + got[1]) == list(range(400))


def test_the_records_of_a_killed_member_are_delivered_again(servers: str) -> None:
    queue = Queue(servers, 20)
    arguments = [sys.executable, "-m", "tests.differential.shared_source_script", servers, queue.group, queue.topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        first = int(held.stdout.readline())
        held.send_signal(signal.SIGKILL)
    got: dict[int, int] = {}

    def note(record: SharedRecord) -> SharedRecord:
        got[record.offset] = record.delivery_count
        return record

    control, done = queue.run(note)
    until(lambda: len(got) == 20)
    control.drain_and_shutdown(done, timeout=60)
    assert first in got
    assert control.snapshot()["accepted"] == 20


def test_a_failed_stage_releases_its_records_which_come_again_at_once(servers: str) -> None:
    queue = Queue(servers, 10)
    got: list[tuple[int, int]] = []

    def work(record: SharedRecord) -> SharedRecord:
        got.append((record.offset, record.delivery_count))
        if got == [(0, 1), (1, 1), (2, 1), (3, 1)]:
            raise OSError("disk full")
        return record

    control, done = queue.run(work)
    assert isinstance(done.exception(60), OSError)
    assert control.is_shutdown.exception(60) is None
    shot = control.snapshot()
    assert shot["released"] >= 1
    accepted = shot["accepted"]
    assert accepted == 3, "the three before it are done"
    got.clear()
    control, done = queue.run(work)
    until(lambda: len(got) >= 10 - accepted)
    control.drain_and_shutdown(done, timeout=60)
    assert [offset for offset, _ in got] == list(range(accepted, 10))
    assert got[0] == (3, 2)


def test_a_record_at_its_delivery_limit_is_rejected(servers: str) -> None:
    queue = Queue(servers, 3)
    counts: list[int] = []

    def work(record: SharedRecord) -> SharedRecord:
        if record.offset == 1:
            counts.append(record.delivery_count)
            raise OSError("poison")
        return record

    for _ in range(2):
        control, done = queue.run(work, delivery_limit=2)
        assert isinstance(done.exception(60), OSError)
        control.is_shutdown.result(60)
    assert counts == [1, 2]
    assert control.snapshot()["rejected"] >= 1
    queue.write(range(3, 4))
    after: list[int] = []
    control, done = queue.run(lambda record: after.append(record.offset) or record)
    until(lambda: 3 in after)
    control.drain_and_shutdown(done, timeout=60)
    assert 1 not in after


def test_the_user_rejects_and_releases_records(servers: str) -> None:
    queue = Queue(servers, 4)
    got: list[tuple[int, int]] = []

    def work(record: SharedRecord) -> SharedRecord:
        got.append((record.offset, record.delivery_count))
        if record.offset == 1:
            record.reject()
        if record.offset == 2 and record.delivery_count == 1:
            record.release()
        return record

    control, done = queue.run(work)
    until(lambda: len(got) >= 5)
    control.drain_and_shutdown(done, timeout=60)
    assert sorted(got) == [(0, 1), (1, 1), (2, 1), (2, 2), (3, 1)]
    shot = control.snapshot()
    assert (shot["accepted"], shot["released"], shot["rejected"]) == (3, 1, 1)


def test_work_that_is_longer_than_the_lock_is_renewed_and_not_delivered_to_another_member(servers: str) -> None:
    queue = Queue(servers, 4)
    go_on, held, other = threading.Event(), [], []

    def hold(record: SharedRecord) -> SharedRecord:
        held.append(record)
        assert go_on.wait(120)
        return record

    slow = queue.run(hold, max_in_flight=4)
    until(lambda: slow[0].snapshot()["locked"] == 4)
    quick = queue.run(lambda record: other.append(record) or record)
    until(lambda: slow[0].snapshot()["renewed"] >= 12)  # three times half of the lock
    go_on.set()
    until(lambda: slow[0].snapshot()["accepted"] == 4)
    for control, done in (slow, quick):
        control.drain_and_shutdown(done, timeout=60)
    assert other == []
    assert slow[0].snapshot()["lost"] == 0


def test_a_sink_that_does_nothing_locks_no_more_than_the_bound_and_heartbeats_continue(servers: str) -> None:
    queue = Queue(servers, 200)
    go_on, locked = threading.Event(), []

    def hold(record: SharedRecord) -> SharedRecord:
        assert go_on.wait(120)
        return record

    control, done = queue.run(hold, max_in_flight=7)

    def renewed() -> bool:
        shot = control.snapshot()
        locked.append(shot["locked"] + shot["requested"])
        return shot["renewed"] >= 28

    until(renewed)
    assert max(locked) == 7
    go_on.set()
    until(lambda: control.snapshot()["accepted"] == 200)
    control.drain_and_shutdown(done, timeout=60)
    assert control.snapshot()["lost"] == 0


@pytest.mark.parametrize("shape", ["map_async", "async_boundary", "two sinks", "substreams", "unordered"])
def test_a_record_is_accepted_through_every_kind_of_graph(servers: str, shape: str) -> None:
    queue = Queue(servers, 100, 2)
    source = Consumer.shared_source(queue.settings(), queue.topic)
    seen: list[int] = []

    def note(record: SharedRecord) -> SharedRecord:
        seen.append(record.offset)
        return record

    flows = {
        "map_async": lambda: source.map_async(8, note),
        "unordered": lambda: source.map_async_unordered(8, note),
        "async_boundary": lambda: source.async_boundary().map(note),
        "two sinks": lambda: source.also_to(Sink.foreach(note)),
        "substreams": lambda: source.flat_map_merge(4, lambda record: _one(note(record))),
    }
    control, done = flows[shape]().to_mat(Sink.ignore(), Keep.both).run()
    until(lambda: control.snapshot()["accepted"] == 100)
    control.drain_and_shutdown(done, timeout=60)
    assert len(seen) == 100
    assert control.snapshot()["lost"] == 0


def _one(element):
    from streamactors import Source

    return Source.single(element)


def test_aborted_transactions_and_markers_are_gaps(servers: str) -> None:
    queue = Queue(servers, 1)
    with ClusterRequests(servers) as cluster:
        configs = [{"name": "share.isolation.level", "config_operation": 0, "value": "read_committed"}]
        resource = {"resource_type": GROUP_CONFIG, "resource_name": queue.group, "configs": configs}
        cluster.call(cluster.brokers()[0], 44, 1, {"resources": [resource], "validate_only": False})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": queue.topic})
    producer.init_transactions()
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(queue.topic, value)
        producer.flush()
        end()
    got: list[bytes] = []
    control, done = queue.run(lambda record: got.append(record.value) or record)
    until(lambda: b"committed" in got)
    control.drain_and_shutdown(done, timeout=60)
    assert got == [b"0", b"committed"]


def test_a_source_reads_through_tls_and_a_login(kafka: apache.ApacheKafka, authority: Path) -> None:
    queue = Queue(kafka.address, 20)
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "pw",
    }
    settings = SharedSourceSettings(kafka.door_address, queue.group, properties=properties)
    source = Consumer.shared_source(settings, queue.topic).to_mat(Sink.ignore(), Keep.both)
    control, done = source.run()
    until(lambda: control.snapshot()["accepted"] == 20)
    control.drain_and_shutdown(done, timeout=60)
    refused = SharedSourceSettings(
        kafka.door_address, queue.group, properties={**properties, "sasl.password": "wrong"}, preflight_timeout_ms=200
    )
    _, done = Consumer.shared_source(refused, queue.topic).to_mat(Sink.ignore(), Keep.both).run()
    error = done.exception(60)
    assert isinstance(error, NoBroker)
    assert "ann" in str(error) or "login" in str(error).lower()


def test_a_broker_with_the_first_version_delivers_and_acknowledges(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ShareFetch 1 has no renewal. The broker serves it, too."""
    monkeypatch.setattr("streamactors.kafka.client.share.share_requests._NEWEST", 1)
    queue = Queue(servers, 50)
    got: list[int] = []
    control, done = queue.run(lambda record: got.append(record.offset) or record)
    until(lambda: len(got) >= 50)
    control.drain_and_shutdown(done, timeout=60)
    assert sorted(got) == list(range(50))
    assert control.snapshot()["accepted"] == 50


def test_a_new_group_begins_where_the_settings_say(servers: str) -> None:
    queue = Queue(servers, 3)
    group = f"{queue.group}-earliest"
    settings = SharedSourceSettings(servers, group, auto_offset_reset="earliest")
    source = Consumer.shared_source(settings, queue.topic).take(3).to_mat(Sink.to_list(), Keep.right)
    assert [record.value for record in source.run().result(60)] == [b"0", b"1", b"2"]


def test_a_topic_that_is_missing_fails_the_source_and_names_it(servers: str) -> None:
    control, done = (
        Consumer.shared_source(SharedSourceSettings(servers, "g"), "nowhere").to_mat(Sink.ignore(), Keep.both).run()
    )
    error = done.exception(60)
    assert isinstance(error, TopicNotFound)
    assert "nowhere" in str(error)
    assert isinstance(control.is_shutdown.exception(60), TopicNotFound)
