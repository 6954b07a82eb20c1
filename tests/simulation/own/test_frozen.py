"""A transactional instance that is frozen for longer than its session and its transactions last, at any moment, continues in its process."""

from __future__ import annotations

import pytest

from streamactors import ActorSystem
from streamactors.kafka import ConsumerSettings, ProducerRecord, Subscriptions, Transactional
from streamactors.simulation.cluster.weather import Calm
from tests.simulation.own.play import SERVERS, WRITER, Play

READER = ConsumerSettings(SERVERS, "copy", "earliest", properties={"session.timeout.ms": 10_000})
COUNT = 200
FROZEN_MS = 90_000.0


def copy(_: Play, instance: str) -> None:
    settings = WRITER.with_transactional_id(f"copy-{instance}")
    with ActorSystem() as system:
        records = Transactional.source(READER, Subscriptions.topics("in"))
        copies = records.map(lambda record: ProducerRecord("out", record.value, record.key))
        copies.run_with(Transactional.sink(settings), system).result()


class Listening:
    """Calm weather that hears which requests are on their way."""

    def __init__(self, play: Play) -> None:
        self._calm = Calm(play.dice)
        self.heard: set[str] = set()
        self.lose_request = self.lose_answer = self._calm.lose_request

    def delay_ms(self, client: str, broker: int, api: str) -> float:
        self.heard.add(api)
        return self._calm.delay_ms(client, broker, api)


def freeze(seed: int, until: str) -> tuple[list[int], Play]:
    """Freeze an instance when it has sent such a request, and another one takes over; return what is copied in the end."""

    def body(play: Play) -> list[int]:
        play.send("in", ((b"k%d" % (each % 20), b"%d" % each) for each in range(COUNT)))
        play.cluster.weather = listening = Listening(play)
        play.start("1")
        assert play.world.wait(lambda: until in listening.heard, 60_000)
        play.world.pause("1")
        play.start("2")
        play.world.sleep(FROZEN_MS)
        play.world.resume("1")
        play.until(lambda: len(play.read("out")) >= COUNT)
        play.world.sleep(60_000)
        return sorted(int(each.value()) for each in play.read("out"))

    play = Play(f"{seed}/{until}", copy, {"in": 3, "out": 3})
    return play.run(body), play


ASKED = ["join_group", "init_producer_id", "add_partitions_to_txn", "produce", "add_offsets_to_txn", "txn_offset_commit", "end_txn"]  # fmt: skip


def check(seed: int, until: str) -> None:
    copied, play = freeze(seed, until)
    assert copied == list(range(COUNT))
    assert play.failed == []


@pytest.mark.parametrize("until", ["add_offsets_to_txn", "txn_offset_commit"])
def test_an_instance_that_is_frozen_with_a_request_on_its_way_continues_and_every_record_is_copied_once(
    until: str,
) -> None:
    check(3, until)


@pytest.mark.slow
@pytest.mark.parametrize("until", ASKED)
def test_frozen_instances_in_many_seeds(until: str) -> None:
    for seed in range(20):
        check(seed, until)
