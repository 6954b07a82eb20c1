"""Our metadata records and image beside Apache Kafka's own: the same bytes, and the same image from any sequence of records."""

from __future__ import annotations

import random
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamactors.broker.metadata import metadata_record as cluster
from streamactors.broker.metadata import security_record as security
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_codec import RECORDS, decode_record, encode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.transaction_record import AbortTransaction, BeginTransaction, EndTransaction
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
PROGRAM = Path(__file__).parent / "java_programs" / "MetadataReplay.java"
SEQUENCES = 150
NOT_IN_AN_IMAGE = (BeginTransaction, EndTransaction, AbortTransaction, cluster.ZkMigrationState)


def replayed_by_kafka(sequences: Sequence[Sequence[bytes]]) -> list[tuple[list[bytes], list[bytes]]]:
    """Return, for each sequence, its records as Kafka encodes them and the records of Kafka's image."""
    lines = [",".join(value.hex() for value in sequence) for sequence in sequences]
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", apache.classpath(), str(PROGRAM)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    answers = []
    for answer in done.stdout.splitlines():
        assert "\t" in answer, answer
        same, image = answer.split("\t")
        answers.append(
            (
                [bytes.fromhex(each) for each in same.split(",")],
                [bytes.fromhex(each) for each in image.split(",") if each],
            )
        )
    assert len(answers) == len(lines), done.stderr
    return answers


class Cluster:
    """Makes records that a controller could write, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.brokers: dict[int, int] = {}
        self.topics: dict[str, tuple[uuid.UUID, dict[int, int]]] = {}  # name -> id, replicas of each partition
        self.acls: list[uuid.UUID] = []
        self.scram: list[tuple[str, int]] = []
        self.tokens: list[str] = []
        self.producer_id = 0

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.random.getrandbits(128))

    def ids(self, at_most: int = 3) -> tuple[int, ...]:
        return tuple(self.random.sample(range(1, 9), self.random.randint(0, at_most)))

    def records(self, count: int) -> list[MetadataRecord]:
        made: list[MetadataRecord] = [cluster.FeatureLevel("metadata.version", 33)]
        while len(made) < count:
            made += self.random.choice(
                [self.broker, self.broker_change, self.topic, self.partition_change, self.config, self.user, self.other]
            )()
        return made

    def broker(self) -> list[MetadataRecord]:
        broker, self.producer_id = self.random.randint(1, 6), self.producer_id + 1
        self.brokers[broker] = self.producer_id
        endpoint = cluster.Endpoint("PLAINTEXT", "höst", self.random.randrange(65536), 0)
        feature = cluster.Feature("metadata.version", 7, 27)
        return [
            cluster.BrokerRegistration(
                broker,
                self.uuid(),
                self.producer_id,
                (endpoint,),
                (feature,),
                self.random.choice([None, "rack"]),
                fenced=self.random.random() < 0.5,
                in_controlled_shutdown=self.random.random() < 0.2,
                log_dirs=(self.uuid(),),
                cordoned=self.random.choice([None, (), (self.uuid(),)]),
            )
        ]

    def broker_change(self) -> list[MetadataRecord]:
        if not self.brokers:
            return []
        broker, epoch = self.random.choice(list(self.brokers.items()))
        kind = self.random.randrange(5)
        if kind == 0:
            del self.brokers[broker]
            return [cluster.UnregisterBroker(broker, epoch)]
        if kind == 1:
            return [cluster.FenceBroker(broker, epoch)]
        if kind == 2:
            return [cluster.UnfenceBroker(broker, epoch)]
        return [
            cluster.BrokerRegistrationChange(
                broker,
                epoch,
                self.random.choice([None, 1, -1]),
                self.random.choice([None, 1]),
                self.random.choice([None, (self.uuid(),)]),
                self.random.choice([None, (), (self.uuid(),)]),
            )
        ]

    def topic(self) -> list[MetadataRecord]:
        name = f"t{self.random.randrange(5)}"
        if name in self.topics:
            topic_id, _ = self.topics.pop(name)
            return [cluster.RemoveTopic(topic_id)]
        topic_id, partitions = self.uuid(), self.random.randint(1, 3)
        self.topics[name] = topic_id, {}
        made: list[MetadataRecord] = [cluster.TopicRecord(name, topic_id)]
        for number in range(partitions):
            replicas = self.ids() or (1,)
            self.topics[name][1][number] = len(replicas)
            made.append(
                cluster.PartitionRecord(
                    number,
                    topic_id,
                    replicas,
                    self.ids(),
                    self.random.randint(-1, 9),
                    self.random.randint(0, 99),
                    self.random.randint(0, 99),
                    tuple(self.uuid() for _ in replicas),
                    self.ids(),
                    self.ids(),
                    removing=self.ids(),
                    adding=self.ids(),
                    recovering=self.random.randint(0, 1),
                )
            )
        return made

    def partition_change(self) -> list[MetadataRecord]:
        if not self.topics:
            return []
        name = self.random.choice(list(self.topics))
        topic_id, partitions = self.topics[name]
        if self.random.random() < 0.1:
            return [cluster.ClearElr(self.random.choice([name, ""]))]
        number = self.random.choice(list(partitions))
        some = lambda: self.random.choice([None, self.ids()])  # noqa: E731
        replicas = some() or None
        return [
            cluster.PartitionChange(
                number,
                topic_id,
                some(),
                self.random.choice([None, -1, 3]),
                replicas,
                some(),
                some(),
                self.random.choice([None, 0, 1]),
                some(),
                some(),
                None if replicas is None else tuple(self.uuid() for _ in replicas),
            )
        ]

    def config(self) -> list[MetadataRecord]:
        names = [(2, name) for name in self.topics] + [(4, ""), (4, "1")]
        return [
            cluster.ConfigRecord(
                *self.random.choice(names),
                self.random.choice(["retention.ms", "min.insync.replicas"]),
                self.random.choice([None, "1", "2"]),
            )
        ]

    def user(self) -> list[MetadataRecord]:
        entity = tuple(
            security.QuotaEntity(kind, self.random.choice([None, "x"]))
            for kind in self.random.sample(["user", "client-id"], self.random.randint(1, 2))
        )
        made: list[MetadataRecord] = [
            security.ClientQuota(entity, self.random.choice(["a", "b"]), 1.5, self.random.random() < 0.3)
        ]
        if self.acls and self.random.random() < 0.4:
            made.append(security.RemoveAccessControlEntry(self.acls.pop()))
        else:
            self.acls.append(self.uuid())
            made.append(security.AccessControlEntry(self.acls[-1], 2, "t", 3, "User:a", "*", 3, 3))
        if self.scram and self.random.random() < 0.4:
            made.append(security.RemoveUserScramCredential(*self.scram.pop()))
        elif ("u", 1) not in self.scram:
            self.scram.append(("u", 1))
            made.append(security.UserScramCredential("u", 1, b"salt", b"stored", b"server", 4096))
        if self.tokens and self.random.random() < 0.4:
            made.append(security.RemoveDelegationToken(self.tokens.pop()))
        else:
            self.tokens.append(f"token{self.random.getrandbits(20)}")
            made.append(security.DelegationToken("User:a", "User:b", ("User:c",), 1, 2, 3, self.tokens[-1]))
        return made

    def other(self) -> list[MetadataRecord]:
        self.producer_id += 1000
        endpoint = cluster.Endpoint("CONTROLLER", "h", 9093, 0)
        return [
            cluster.ProducerIdsRecord(1, 5, self.producer_id),
            cluster.ControllerRegistration(
                3, self.uuid(), False, (endpoint,), (cluster.Feature("kraft.version", 0, 1),)
            ),
            *self.random.choice([(), (cluster.UnregisterController(3),)]),
            cluster.NoOp(),
        ]


def test_kafka_encodes_our_records_in_the_same_bytes_and_comes_to_the_same_image() -> None:
    sequences = [Cluster(seed).records(5 + seed % 60) for seed in range(SEQUENCES)]
    assert {type(record) for sequence in sequences for record in sequence} == set(RECORDS) - set(NOT_IN_AN_IMAGE)
    encoded = [[encode_record(record) for record in sequence] for sequence in sequences]
    for seed, (records, values, (same, theirs)) in enumerate(
        zip(sequences, encoded, replayed_by_kafka(encoded), strict=True)
    ):
        assert same == values, seed
        ours = apply_records(MetadataImage(), records, len(records) - 1).image
        image = apply_records(MetadataImage(), map(decode_record, theirs), len(records) - 1).image
        assert image == ours, seed


def test_kafka_encodes_the_marks_of_a_transaction_in_the_same_bytes() -> None:
    marks = [
        encode_record(each)
        for each in (
            BeginTransaction(),
            BeginTransaction("made of many batches"),
            EndTransaction(),
            AbortTransaction("why"),
            cluster.ZkMigrationState(2),
        )
    ]
    assert [same for same, _ in replayed_by_kafka([[each] for each in marks])] == [[each] for each in marks]
