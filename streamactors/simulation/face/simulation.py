"""What a test says to one simulated run: topics with records, stores outside, instances of a pipeline, and what must hold.

Owner: the run of one seed. The test's body runs inside the world as its main task, so it may wait in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamactors.durations import Duration, duration_s
from streamactors.errors import StreamActorsError
from streamactors.simulation.face.checks import Checks, Condition, text_of
from streamactors.simulation.face.deployment import Deployment
from streamactors.simulation.face.invariants import Invariants, Key, Where
from streamactors.simulation.face.outside import Outside
from streamactors.simulation.face.parts import SERVERS, Parts
from streamactors.simulation.face.reached import READY
from streamactors.simulation.face.seen import Seen, SeenRecord
from streamactors.simulation.face.sent import Sending
from streamactors.simulation.face.strategies import drawn, is_strategy
from streamactors.simulation.face.verdict import HOLDS, Keys, Verdict

if TYPE_CHECKING:
    import random

    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.simulated import SimulatedWorld

REPLICAS: Final = 3
COUNT: Final = 100


class Simulation:
    """One run, as its test sees it. `servers`: what settings of clients name."""

    servers = SERVERS

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sending = Sending(parts)
        self._seen = Seen(parts.cluster)
        self._stores: dict[str, Outside] = {}
        self.checks = Checks(parts)
        self.deployment = Deployment(parts)
        self._invariants = Invariants(self.checks, self._sending, self._seen)
        self.begun = False
        """Whether an instance was deployed, so that faults may act."""

    # --- what there is ---

    @property
    def seed(self) -> int:
        """The seed of this run."""
        return self._parts.case.seed

    @property
    def world(self) -> SimulatedWorld:
        """The world: virtual time, instances, the trace."""
        return self._parts.world

    @property
    def cluster(self) -> SimulatedCluster:
        """The simulated cluster."""
        return self._parts.cluster

    @property
    def dice(self) -> random.Random:
        """Randomness of the seed."""
        return self._parts.world.dice

    @property
    def instance(self) -> str:
        """The name of the calling instance, such as "1"; "" in the test's body."""
        return self._parts.world.instance()

    @property
    def folder(self) -> Path:
        """The folder on the disk of the calling instance. It survives crashes."""
        return self._parts.world.folder()

    def topic(
        self,
        name: str,
        partitions: int = 1,
        records: Any = None,
        *,
        over: Duration = "1m",
        key: Callable[[Any], Any] | None = None,
        count: int = COUNT,
        settings: dict[str, str] | None = None,
    ) -> None:
        """Create a topic, and send records to it over a span of virtual time.

        `records`: values, (key, value) pairs or ProducerRecords; values that are not bytes, text or None are sent as JSON. A strategy of Hypothesis
        is drawn from the seed: its list, or `count` of its values. `key`: the id of a value, for `sim.sent`; else the record's key, or its value."""
        cluster = self._parts.cluster
        if not cluster.topics.of(name):
            cluster.create_topic(name, partitions, min(REPLICAS, len(cluster.brokers_alive())), settings)
        if records is None:
            return
        given: Iterable[Any] = drawn(records, count, f"{self.seed}/{name}") if is_strategy(records) else records
        self._sending.send(name, given, duration_s(over, "over") * 1_000, key)

    def outside(self, name: str) -> Outside:
        """Return a store outside of the pipeline; one name is one store."""
        found = self._stores.get(name)
        if found is None:
            found = self._stores[name] = Outside(name, self._parts)
        return found

    def deploy(self, pipeline: Callable[[], Any], instances: int = 1, *, name: str = "") -> None:
        """Start instances of a pipeline: a function that each instance calls, which runs, or returns a graph to run.

        `name` tells several pipelines of one test apart. An instance that fails is started again after a second."""
        if not callable(pipeline):
            raise StreamActorsError(
                f"deploy takes a function that each instance calls, not {pipeline!r}: deploy(lambda: graph)"
            )
        if not self.begun:
            self.begun = True
            self._parts.plan.begin(self._parts.world, self._parts.cluster, self.deployment)
        self.deployment.deploy(name, pipeline, instances)

    def scale(self, instances: int, *, name: str = "") -> None:
        """Let so many instances run. One that leaves is asked to end, and killed after a minute."""
        self.deployment.scale(name, instances)

    def on_stop(self, stop: Callable[[], object]) -> None:
        """In a pipeline that is a function: call `stop()` when this instance is asked to end, as a handler of SIGTERM."""
        self.deployment.on_stop(stop)

    def sleep(self, duration: Duration) -> None:
        """Wait in virtual time."""
        self._parts.world.sleep(duration_s(duration, "sleep") * 1_000)

    # --- what is to be seen ---

    @property
    def sent(self) -> Keys:
        """The ids of the records that the test sends, of all topics."""
        return self._sending.keys

    def place_of(self, key: Any) -> tuple[str, int, int] | None:
        """Return where the record of an id is: topic, partition, offset; None if no record has it."""
        return self._parts.place_of(key, None)

    @property
    def declared(self) -> int:
        """The number of records that the test declares, of all topics, sent or left out."""
        return self._sending.declared

    @property
    def is_sent(self) -> bool:
        """Whether the cluster has stored all records of the test."""
        return self._sending.waiting == 0

    def committed(self, topic: str) -> list[SeenRecord]:
        """Return the records that a reader at read_committed sees, by partition and offset. For checks: it takes no time."""
        return self._seen.of(topic, committed=True)

    def read(self, topic: str) -> list[SeenRecord]:
        """Return the records that a reader at read_uncommitted sees."""
        return self._seen.of(topic, committed=False)

    # --- what must hold ---

    def always(self, condition: Condition, name: str | None = None) -> None:
        """The condition holds after each effect, commit and batch of records."""
        self.checks.always(f"always {name or text_of(condition)}", condition)

    def never(self, condition: Condition, name: str | None = None) -> None:
        """The condition never holds."""
        self.checks.always(f"never {name or text_of(condition)}", lambda: Verdict("it did") if condition() else HOLDS)

    def eventually(self, condition: Condition, within: Duration = "10m", name: str | None = None) -> None:
        """The condition holds in the end, so long after the faults at the latest."""
        within_ms = duration_s(within, "within") * 1_000
        self.checks.eventually(f"eventually {name or text_of(condition)}", condition, within_ms)

    def sometimes(self, name: str, condition: Condition | None = None) -> None:
        """Some seed reaches this, or the test has proved nothing. Without a condition: one of the ready names. Raises StreamActorsError."""
        if condition is None and name not in READY:
            raise StreamActorsError(
                f"sometimes({name!r}) has no condition and is none of the ready names: {', '.join(READY)}"
            )
        self.checks.sometimes(name, condition)

    def nothing_lost(self, where: Where, key: Key = None, within: Duration = "10m") -> None:
        """Every record that was sent has a row of a store, or a committed record of a topic, in the end.

        `key`: the id of a row's value or of a record (`SeenRecord`); without it its key."""
        self._invariants.nothing_lost(where, key, duration_s(within, "within") * 1_000)

    def exactly_once(self, where: Where, key: Key = None, within: Duration = "10m") -> None:
        """Every record that was sent has one row, or one committed record: never two."""
        self._invariants.exactly_once(where, key, duration_s(within, "within") * 1_000)

    def order_per_key(self, where: Where, key: Key = None) -> None:
        """The results of the records of one key come in the order in which they were sent; repetitions may follow."""
        self._invariants.order_per_key(where, key)

    def committed_at_most_done(
        self, store: Outside, key: Key = None, *, group: str | None = None, unless: Callable[[Any], bool] | None = None
    ) -> None:
        """No offset is committed before the effects of all records below it are done. `unless(value)`: a record that has no effect."""
        self._invariants.committed_at_most_done(store, key, group, unless)

    def one_final_result_per_window(self, topic: str, key: Key = None) -> None:
        """No window has two committed results. `key`: the window of a record; without it the record's key."""
        self._invariants.one_final_result_per_window(topic, key)

    def drains_within(self, duration: Duration) -> None:
        """An instance that is asked to end has ended in this time, by itself."""
        most_ms = duration_s(duration, "drains_within") * 1_000

        def slow() -> Verdict:
            for name, took_ms, by_itself in self.deployment.drained_ms:
                if not by_itself:
                    return Verdict(f"instance {name} did not end when it was asked to, and was killed")
                if took_ms > most_ms:
                    return Verdict(f"instance {name} took {took_ms / 1_000:g} s to end")
            return HOLDS

        self.checks.always(f"drains_within({duration})", slow)

    # --- the end of a run ---

    def finish(self, faults_for_ms: float) -> None:
        """Let faults act until everything is sent and a while longer, end them, and wait for what must hold. Raises CheckBroken."""
        world = self._parts.world
        world.wait(lambda: self.is_sent, None)
        if self.begun:
            world.sleep(faults_for_ms)
            self._parts.plan.heal()
            self.deployment.everything_up()
        self.checks.settle(self.deployment.errors)
        world.sleep(SETTLE_MS)
        self.deployment.look()
        self.checks.look()


SETTLE_MS: Final = 5_000.0
"""So long after everything holds the run is watched for what comes too often."""
