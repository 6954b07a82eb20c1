"""A process with retry topics, killed with -9 again and again: every record is billed or a dead letter in the end, and none is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Sink
from streamactors.kafka import Consumer, MetadataClient, Subscriptions
from streamactors.kafka.dead_letters import StoredLetter

COUNT = 200
KILLS = 6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_record_is_billed_or_a_dead_letter_after_kills(cluster, settings, system):
    topic = "killed-bills"
    cluster.create_topic(topic, partitions=2)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, b"%d" % (number % 7))
    assert producer.flush(10) == 0
    dice, billed = random.Random(7), set()
    wanted = {number for number in range(COUNT) if number % 4 != 3}
    for kill in range(KILLS + 1):
        command = [sys.executable, "-m", "tests.kafka._retrying", cluster.bootstrap_servers, topic]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        reader = threading.Thread(target=follow, args=(process, billed, dice.randint(1, 20) if kill < KILLS else None))
        reader.start()
        while kill == KILLS and not (billed == wanted and buried(settings, system)):
            pass  # each look asks the broker; the test's time limit ends it
        if kill == KILLS:
            process.kill()
        reader.join()
        process.stdout.close()
        process.wait(30)
    assert billed == wanted


def follow(process, billed, most):
    """Note what the process has billed; kill the process after so many lines."""
    for said, line in enumerate(process.stdout, 1):
        if line.endswith("\n"):
            billed.add(int(line))
        if said == most:
            process.kill()


def buried(settings, system):
    """Return whether all that fails for good is in the dead-letter topic, and check what is told of it."""
    read = Consumer.plain_source(settings.with_group_id("look"), Subscriptions.topics("killed-bills-dead"), until="end")
    found = read.run_with(Sink.to_list(), system).result(60)
    letters = [StoredLetter.read(record.key, record.value, record.headers) for record in found]
    assert {letter.topic for letter in letters} <= {"killed-bills"}
    assert {letter.attempts for letter in letters} <= {3}
    with MetadataClient(settings.with_group_id("killed-bills")) as client:
        partitions = client.partitions_for("killed-bills")
        ends = client.end_offsets(partitions)
        committed = client.committed(partitions)
    assert all(committed.get(key, 0) <= end for key, end in ends.items())
    return {int(letter.value) for letter in letters} == {number for number in range(COUNT) if number % 4 == 3}
