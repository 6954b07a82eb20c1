"""Random graphs over random sources, ended at random moments and begun again until the input is consumed: every record has reached every
sink at least once, nothing was ever committed that had not, and at the end everything is committed.

The ends: the actor system is torn down (which reports no stage as ended), a function raises, a sink's effect raises, the control stops
the source, downstream takes enough. Real kills of real processes are in `test_killed_processes.py`."""

from __future__ import annotations

import random
import threading
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink
from streamactors.engine.snapshot import snapshots
from streamactors.kafka import Committer, CommitterSettings, Consumer, ConsumerSettings, MetadataClient, Subscriptions
from tests.kafka._random_pipelines import MOVING, Pipeline, Place, place_of, steps

PARTITIONS = 3
ENDS = ["abrupt", "abrupt", "abrupt", "raises", "sink raises", "stop", "take"]
ROUNDS = 12
WAIT = 60


class Seen:
    """What has reached each sink, over all runs; `until(n)` sets an event when so many elements have arrived in this run."""

    def __init__(self) -> None:
        self.at: dict[str, set[Place]] = {}
        self.reached = threading.Event()
        self._left = 0
        self._raise = False
        self._lock = threading.Lock()

    def until(self, n: int, *, raise_then: bool) -> None:
        self.reached.clear()
        self._left = n
        self._raise = raise_then

    def store(self, sink: str, element: tuple[Any, ...]) -> tuple[Any, ...]:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                if self._raise:
                    raise ValueError("told to")
            self.at.setdefault(sink, set()).update(map(place_of, element))
        return element


class Trial:
    """One random graph over topics of its own group, run until it has consumed everything."""

    def __init__(self, bootstrap_servers: str, topics: list[str], count: int, seed: int, way: str) -> None:
        self.dice = random.Random(f"{seed} {way}")
        self.bootstrap_servers = bootstrap_servers
        self.topics = self.dice.sample(topics, self.dice.choice([1, 1, 1, 2]))
        self.way = way
        self.group = f"{way}-{seed}-{uuid.uuid4().hex[:6]}"
        self.properties: dict[str, Any] = {}
        self.pipeline = Pipeline.drawn(self.dice)
        self.seen = Seen()
        self.places = [(t, p, o) for t in self.topics for p in range(PARTITIONS) for o in range(count)]
        self.ends = {(t, p): count for t in self.topics for p in range(PARTITIONS)}
        # offsets in hand are committed by the Committer alone: a side sink has no say in them
        sinks = self.pipeline.keeps if way == "marks" else {"main": self.pipeline.keeps["main"]}
        self.due = {name: {place for place in self.places if keeps(place)} for name, keeps in sinks.items()}
        self.described = f"seed {seed}, {way}, {len(self.topics)} topics: {self.pipeline.steps}"

    def settings(self, topic: str) -> ConsumerSettings:
        return ConsumerSettings(
            self.bootstrap_servers,
            f"{self.group}-{topic}",
            "earliest",
            commit_interval_ms=self.dice.choice([5, 20, 1_000]),
            max_poll_records=self.dice.choice([1, 7, 500]),
            poll_interval_ms=5,
            revoke_timeout_ms=500,
            close_timeout_ms=30_000,  # the first topic's tail may wait in a group until the second topic was read
            properties=self.properties,
        )

    def source(self, topic: str) -> Any:
        settings = self.settings(topic)
        by_hand = [(topic, p) for p in range(PARTITIONS)]
        told = self.dice.choice([Subscriptions.topics(topic), Subscriptions.assignment(*by_hand)])
        by_marks = self.way == "marks"
        if self.dice.random() < 0.6:
            make = Consumer.source if by_marks else Consumer.committable_source
            return make(settings, told, until="end").map(lambda record: (record,))
        apart = Consumer.partitioned_source if by_marks else Consumer.committable_partitioned_source
        inside = Pipeline(steps(self.dice, MOVING, self.dice.randint(0, 2)))
        return apart(settings, told, until="end").flat_map_merge(
            PARTITIONS, lambda pair: inside.built(pair[1].map(lambda record: (record,)), self.sink)
        )

    def sources(self) -> Any:
        first, *others = [self.source(topic) for topic in self.topics]
        if not others:
            return first
        join = self.dice.choice(["merge", "concat"])
        return getattr(first, join)(others[0], mat=lambda a, b: (a, b))

    def sink(self, name: str) -> Sink[Any, Any]:
        store = lambda element: self.seen.store(name, element)  # noqa: E731
        if self.way == "offsets" and name == "main":
            settings = CommitterSettings(self.dice.choice([1, 10, 1_000]), self.dice.choice([5, 60_000]))
            return Committer.sink(settings, offset=lambda element: [m.offset for m in store(element)])
        if self.dice.random() < 0.3:
            return Sink.foreach_async(self.dice.randint(1, 4), store)
        return Sink.foreach(store)

    def graph(self, end: str | None) -> Any:
        part = self.pipeline.built(self.sources(), self.sink)
        if end == "raises":
            at = self.dice.choice(self.places)

            def check(element: tuple[Any, ...]) -> tuple[Any, ...]:
                if at in map(place_of, element):
                    raise ValueError("told to")
                return element

            part = part.map(check)
        elif end == "take":
            part = part.take(self.dice.randint(1, 60))
        return part.to_mat(self.sink("main"), Keep.both)

    def round(self, end: str | None) -> bool:
        """Run until the end comes, or the input is over: True then."""
        self.seen.until(self.dice.randint(1, 150), raise_then=end == "sink raises")
        with ActorSystem("killed") as system:
            control, done = self.graph(end).run(system)
            controls = control if isinstance(control, tuple) else (control,)
            done.add_done_callback(lambda _: self.seen.reached.set())
            if end in ("abrupt", "stop"):
                assert self.seen.reached.wait(WAIT), f"{self.described}: nothing moves"
                if end == "stop":
                    for each in controls:
                        each.stop()
                else:
                    system.shutdown(10)
            try:
                error = done.exception(WAIT)
            except TimeoutError:
                looks = "\n".join(map(str, (*snapshots(system), *(each.snapshot() for each in controls))))
                raise AssertionError(f"{self.described}: {end}: no end comes\n{looks}") from None
            for each in controls:
                each.is_shutdown.exception(WAIT)
        if end is None:
            assert error is None, f"{self.described}: {error!r}"
        return error is None and end is None

    def committed(self) -> dict[tuple[str, int], int]:
        found = {}
        for topic in self.topics:
            with MetadataClient(self.settings(topic)) as client:
                known = client.committed([key for key in self.ends if key[0] == topic])
            found.update({key: known.get(key, 0) for key in self.ends if key[0] == topic})
        return found

    def check_commits(self, after: str) -> dict[tuple[str, int], int]:
        committed = self.committed()
        for name, must in self.due.items():
            early = {place for place in must if place[2] < committed[place[:2]]} - self.seen.at.get(name, set())
            assert not early, f"{self.described}: {after}: committed, not at {name}: {sorted(early)[:5]}"
        return committed

    def check_all(self) -> None:
        """Everything that must has reached its sink."""
        for name, must in self.due.items():
            missing = must - self.seen.at.get(name, set())
            assert not missing, f"{self.described}: {len(missing)} never reached {name}: {sorted(missing)[:5]}"

    def go(self) -> None:
        for number in range(ROUNDS):
            end = self.dice.choice(ENDS) if number < ROUNDS - 1 else None
            if end == "take" and len(self.pipeline.keeps) > 1:
                continue  # a sink that has had enough counts no more: what the others have done is committed
            over = self.round(end)
            committed = self.check_commits(f"round {number}, {end}")
            if over or committed == self.ends:
                break
        self.check_all()
        assert committed == self.ends, f"{self.described}: consumed, and not all of it committed"


@pytest.fixture(scope="module")
def topics(cluster):
    made = []
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
    for name in ("first", "second"):
        cluster.create_topic(name, partitions=PARTITIONS)
        for i in range(100 * PARTITIONS):
            producer.produce(name, b"%d" % i, partition=i % PARTITIONS)
        made.append(name)
    assert producer.flush(30) == 0
    return made


@pytest.mark.parametrize("way", ["marks", "offsets"])
@pytest.mark.parametrize("seed", range(4))
def test_every_record_reaches_every_sink_however_the_graph_is_ended(cluster, topics, seed, way):
    Trial(cluster.bootstrap_servers, topics, 100, seed, way).go()


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("way", ["marks", "offsets"])
def test_every_record_reaches_every_sink_in_hundreds_of_graphs(cluster, topics, way):
    for seed in range(100, 300):
        Trial(cluster.bootstrap_servers, topics, 100, seed, way).go()
