"""Pipelines of this project that keep state or send records again, each with what must be true of its results in the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from streamactors import ActorSystem, Flow, Keep, RestartSettings, Sink
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    RetryTopics,
    Subscriptions,
    Transactional,
)
from streamactors.windows import BufferConfig, State, Suppressed, TimeWindows
from tests.simulation.own.play import SERVERS, WRITER, Play

BEGIN_MS = 1_600_000_000_000
SESSION = {"session.timeout.ms": 10_000}
KEYS = 6


def reader(group: str, **more: Any) -> ConsumerSettings:
    return ConsumerSettings(SERVERS, group, "earliest", properties=SESSION, **more)


def state(play: Play, standbys: int = 1) -> State:
    return State.on_disk(str(play.world.folder() / "state"), cache="8MB", standbys=standbys)


class Counts:
    """Counts in windows of ten seconds, on disk, with a standby copy; each result is told once, when its window closes."""

    topics = {"in": 3, "out": 3}
    count = 120

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()

    def run(self, play: Play, instance: str) -> None:
        writer = ProducerSettings(SERVERS, transactional_id=f"counts-{instance}")
        rows = Consumer.records(reader("counts", state=state(play)), Subscriptions.topics("in"), key="string")
        counts = rows.group_by_key().windowed_by(TimeWindows.of_size("10s").with_grace("5s")).count(name="counts")
        closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()
        told = closed.map(lambda row: ProducerRecord("out", b"%d" % row.value, f"{row.key}@{row.start}"))
        with ActorSystem() as system:
            told.run_with(Transactional.sink(writer), system).result()

    def send(self, play: Play) -> None:
        rows = [(b"k%d" % (each % KEYS), b"", BEGIN_MS + each * 500) for each in range(self.count)]
        self.told.update(f"{key.decode()}@{at - at % 10_000}" for key, _, at in rows)
        play.send("in", rows, over="12s")
        play.send("in", [(b"k%d" % each, b"", BEGIN_MS + 600_000) for each in range(KEYS)])  # closes all windows before

    def is_done(self, play: Play) -> bool:
        return len(play.read("out")) >= len(self.told)

    def check(self, play: Play) -> None:
        found = Counter({each.key().decode(): int(each.value()) for each in play.read("out")})
        assert found == self.told
        assert len(play.read("out")) == len(found), "a window has two results"


class Joins:
    """Joins a stream with a table, and counts by what was joined; in transactions, on disk."""

    topics = {"orders": 3, "people": {"partitions": 3, "cleanup.policy": "compact"}, "known": 3, "cities": 3}
    count = 90

    def run(self, play: Play, instance: str) -> None:
        producer = ProducerSettings(SERVERS, transactional_id=f"joins-{instance}")
        topics = Consumer.topics(reader("joins"), producer=producer, state=state(play))
        people = topics.table("people", key="string", value="string", name="people")
        orders = topics.stream("orders", key="string", value="string")
        known = orders.join_table(people, lambda order, city: f"{order} {city}", how="left", name="known")
        known.to("known", key="string", value="string")
        cities = known.select_key(lambda record: record.value.split()[1]).group_by_key().count(name="cities")
        cities.to_stream().to("cities", key="string", value="json")
        with ActorSystem() as system:
            topics.graph().run(system).is_shutdown.result()

    def send(self, play: Play) -> None:
        play.send("people", [(b"p%d" % each, b"c%d" % (each % 2), BEGIN_MS) for each in range(KEYS)])
        play.world.sleep(20_000)
        rows = [(b"p%d" % (each % KEYS), b"%d" % each, BEGIN_MS + 1_000 + each) for each in range(self.count)]
        play.send("orders", rows, over="12s")

    def is_done(self, play: Play) -> bool:
        return sum(self._cities(play).values()) >= self.count

    def _cities(self, play: Play) -> dict[str, int]:
        return {each.key().decode(): int(each.value()) for each in play.read("cities")}

    def check(self, play: Play) -> None:
        wanted = sorted(f"{each} c{each % KEYS % 2}" for each in range(self.count))
        assert sorted(each.value().decode() for each in play.read("known")) == wanted
        assert self._cities(play) == {"c0": self.count // 2, "c1": self.count // 2}


class Retries:
    """Bills at least once, through retry topics; what fails three times becomes a dead letter."""

    count = 60
    retry = RetryTopics("bills", "bills", delays=["1s", "3s"], dead_letters="dead")
    topics = {"bills": 3, "dead": 3}

    def __init__(self) -> None:
        self.billed: list[int] = []

    def run(self, play: Play, instance: str) -> None:
        settings = reader("bills")
        self.retry.create(settings, partitions=3)

        def bill(record: Any) -> int:
            number = int(record.value)
            level = self.retry.names.index(record.topic) + 1 if record.topic in self.retry.names else 0
            if number % 4 > level:
                raise ValueError("no money")
            self.billed.append(number)
            return number

        again = RestartSettings("1ms", "1ms")
        flow = Flow.map(bill).retry(1, again, dead_letters=self.retry.sink(WRITER))
        with ActorSystem() as system:
            _, done = self.retry.source(settings).via(flow).to_mat(Sink.ignore(), Keep.both).run(system)
            done.result()

    def send(self, play: Play) -> None:
        play.send("bills", [(b"k%d" % (each % KEYS), b"%d" % each) for each in range(self.count)], over="12s")

    def is_done(self, play: Play) -> bool:
        return len(set(self.billed)) + len({each.value() for each in play.read("dead")}) >= self.count

    def check(self, play: Play) -> None:
        assert {int(each.value()) for each in play.read("dead")} == {
            each for each in range(self.count) if each % 4 == 3
        }
        assert set(self.billed) == {each for each in range(self.count) if each % 4 != 3}


KINDS = (Counts, Joins, Retries)


def play_out(kind: Any, seed: int) -> Play:
    """Run two instances of a pipeline through two crashes, lost requests and a broker's death; check it in the end."""
    made = kind()

    def body(play: Play) -> None:
        play.start("1", "2")
        play.world.start("writer", lambda: made.send(play))
        for instance in ("1", "2"):
            lost = play.dice.random() < 0.3
            play.crash(instance, after_ms=(500, 9_000), torn=play.dice.random() < 0.5, disk_lost=lost)
        broker = play.dice.randrange(3)
        play.cluster.stop_broker(broker)
        play.sleep(500, 5_000)
        play.cluster.start_broker(broker)
        play.sleep(500, 3_000)
        play.storm.over()
        assert play.until(lambda: made.is_done(play)), f"the results do not come; failed: {play.failed[-2:]}"
        play.world.sleep(3_000)
        made.check(play)

    play = Play(f"{seed}/{kind.__name__}", made.run, kind.topics)
    play.run(body, lost=0.005)
    return play
