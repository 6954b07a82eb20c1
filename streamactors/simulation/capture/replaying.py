"""Running a graph on a capsule: simulated clients, virtual time, one record after the other.

The way of a request takes no time, so what a record causes at once is over before the next one arrives; the rest (timers, commits) is a step of its
own. Owner: the caller of `replay`. One seed decides the order of tasks: equal replays are equal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from streamactors.actors.system import ActorSystem
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Attributed
from streamactors.engine.island.run import runs_of, tap_runs
from streamactors.engine.planning.plan import flat_of
from streamactors.kafka.client.connection import ck
from streamactors.kafka.client.created_topics import made_here
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.changelogs import changelog_provider
from streamactors.simulation.capture.capsule import Capsule, CapturedRecord
from streamactors.simulation.capture.elements import Window
from streamactors.simulation.capture.errors import CaptureError
from streamactors.simulation.capture.loading import Arrival, Begin, arriving, load, put
from streamactors.simulation.capture.looking import Emission, Failure, Looking, failure_of
from streamactors.simulation.capture.sent import SentRecord, SentRecords
from streamactors.simulation.client.factories import simulated_clients
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.cluster.weather import Calm
from streamactors.simulation.world.simulated import SimulatedWorld
from streamactors.state import State

INSTANCE: Final = "1"
LEAD_MS: Final = 10_000
"""The graph starts so long before the first record: it joins its group and restores its state meanwhile."""
AT_ONCE_MS: Final = 10.0
"""What happens so soon after a record, and before the next one, belongs to its step."""
MOMENT_MS: Final = 0.01
SETTINGS: Final = {"auto.create.topics.enable": "true", "log.retention.check.interval.ms": str(2**31 - 1)}


class Step(NamedTuple):
    """What happened from one record to the next. `record` None: no record has arrived, time has passed."""

    number: int
    """The number of the record, from 1; of a step of time: that of the record before."""
    at_ms: int
    record: CapturedRecord | None
    emitted: tuple[Emission, ...]
    left_out: int
    """How many further elements were pushed and are not told."""
    sent: tuple[SentRecord, ...]
    failures: tuple[Failure, ...]

    @property
    def is_empty(self) -> bool:
        """True if nothing happened."""
        return not (self.emitted or self.sent or self.failures)


class Result(NamedTuple):
    """One output: a record that was sent and not aborted (`place`: its topic), or a result of a window (`place`: its stage)."""

    place: str
    key: str
    window: Window | None
    value: str


@dataclass
class Replayed:
    """How a replay ended."""

    records: int = 0
    """Records that arrived."""
    of: int = 0
    """Records that were to arrive."""
    virtual_s: float = 0.0
    """Virtual seconds from the first record to the end."""
    ended: bool = False
    """True if the run had ended before all of them had arrived."""
    failures: list[Failure] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)
    """The group's offsets at the end, by partition."""


OnStep = Callable[[Step], bool]
"""Called with each step; False ends the replay."""


def replay(
    capsule: Capsule,
    graph: RunnableGraph[Any],
    *,
    begin: Begin = Begin.START,
    seed: int | str = 0,
    settle_s: float = 60.0,
    on_step: OnStep = lambda step: True,
) -> Replayed:
    """Run a graph on a capsule as it is, with simulated clients under virtual time; return how it ended.

    After the last record `settle_s` virtual seconds pass, for timers and commits. What the graph does beside Kafka is done: a file is written.
    Raises CaptureError if the graph does not fit the capsule, NotSimulated for sockets and processes."""
    check_fits(capsule, graph)
    world = SimulatedWorld(
        seed, max_steps=sys.maxsize, max_time_s=(capsule.taken_ms - capsule.since_ms) / 1_000 + 86_400
    )
    return world.run(_Replay(world, capsule, graph, begin, settle_s, on_step))


def check_fits(capsule: Capsule, graph: RunnableGraph[Any]) -> None:
    """Raise CaptureError if no source of the graph reads in the capsule's group."""
    groups = {
        settings.group_id
        for node in flat_of(graph.module).nodes
        for settings in [getattr(getattr(node.stage, "plan", node.stage), "settings", None)]
        if isinstance(settings, ConsumerSettings) and settings.group_id
    }
    if groups and capsule.group not in groups:
        raise CaptureError(
            f"the capsule is of group {capsule.group}, and the graph reads in {', '.join(sorted(groups))}: give the graph of the group, or "
            "let its group id be the captured one"
        )


class _Replay:
    """The main task of the world."""

    def __init__(
        self,
        world: SimulatedWorld,
        capsule: Capsule,
        graph: RunnableGraph[Any],
        begin: Begin,
        settle_s: float,
        on_step: OnStep,
    ) -> None:
        self._world = world
        self._capsule = capsule
        self._graph = RunnableGraph[Any](Attributed(graph.module, Attributes(fused=False)))
        self._begin = begin
        self._settle_ms = settle_s * 1_000
        self._on_step = on_step
        self._looking = Looking()
        self._wants_more = True
        self._system: ActorSystem | None = None
        self._error: BaseException | None = None
        self.replayed = Replayed()

    def __call__(self) -> Replayed:
        world, capsule = self._world, self._capsule
        records = arriving(capsule, self._begin)
        begin_ms = records[0].at_ms if records else capsule.since_ms
        ahead_ms = begin_ms - LEAD_MS - world.wall_ms()
        for instance in ("", INSTANCE):
            world.shift_clock(instance, ahead_ms)
        cluster = SimulatedCluster(world, settings=SETTINGS, weather=Calm(world.dice, 0.0, 0.0))
        with simulated_clients(world, cluster), _state_in(world), _made_here(cluster):
            load(cluster, capsule, self._begin)
            self._cluster = cluster
            self._sent = SentRecords(cluster, capsule)
            self.replayed.of = len(records)
            world.start(INSTANCE, self._run)
            self._sleep_until(begin_ms)
            began_ms = world.now_ms()
            self._step(None)
            self._feed(records)
            self._settle()
            self.replayed.virtual_s = (world.now_ms() - began_ms) / 1_000
            self._finish()
        return self.replayed

    def _run(self) -> None:
        """The instance: starts the graph, and stays alive."""
        try:
            self._system = ActorSystem("replay")
            tap_runs(self._system, self._looking.tap)
            self._graph.run(self._system)
        except Exception as error:  # noqa: BLE001  # told as a failure
            self._error = error
        self._world.wait(lambda: False, None)

    # ── records ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, records: list[Arrival]) -> None:
        for each, following in zip_longest(records, records[1:]):
            if not self._goes_on:
                self.replayed.ended = self._wants_more
                return
            self._sleep_until(each.at_ms)
            self._step(None)
            if not self._goes_on:
                continue
            partition = self._cluster.topics.get(*each.record[:2])
            assert partition is not None
            put(partition, each.record)
            self._sent.fed(each.record)
            self.replayed.records += 1
            room = AT_ONCE_MS if following is None else following.at_ms - self._world.wall_ms()
            self._world.sleep(min(AT_ONCE_MS, max(MOMENT_MS, room - MOMENT_MS)))
            self._step(each.record, each.at_ms)

    @property
    def _goes_on(self) -> bool:
        return self._wants_more and not self._is_over

    @property
    def _is_over(self) -> bool:
        return self._error is not None or (self._system is not None and not runs_of(self._system))

    def _sleep_until(self, wall_ms: int) -> None:
        left = wall_ms - self._world.wall_ms()
        if left > 0:
            self._world.sleep(left)

    def _settle(self) -> None:
        """Let timers and commits come; each moment in which something happens is a step."""
        until = self._world.now_ms() + self._settle_ms
        while self._wants_more and self._world.now_ms() < until:
            before = self._looking.heard, self._sent.ends
            self._world.wait(
                lambda seen=before: (self._looking.heard, self._sent.ends) != seen,  # type: ignore[misc]
                until - self._world.now_ms(),
            )
            self._world.sleep(MOMENT_MS)
            self._step(None)

    def _step(self, record: CapturedRecord | None, at_ms: int | None = None) -> None:
        failures = self._looking.failures()
        if self._error is not None and not self.replayed.failures:
            failures += (failure_of(self._error),)
        emitted, left_out = self._looking.emitted(), self._looking.left_out
        self._looking.left_out = 0
        step = Step(
            self.replayed.records, at_ms or self._world.wall_ms(), record, emitted, left_out, self._sent.new(), failures
        )
        self.replayed.failures += failures
        self.replayed.results += [
            Result(each.stage, each.window.key, each.window, each.value) for each in emitted if each.window is not None
        ]
        if record is not None or not step.is_empty:
            self._wants_more = self._on_step(step) and self._wants_more

    def _finish(self) -> None:
        self.replayed.results += [
            Result(each.topic, each.key_text, None, each.value_text) for each in self._sent.kept()
        ]
        client = ck.Consumer(
            {"bootstrap.servers": "capsule", "group.id": self._capsule.group, "enable.auto.commit": False}
        )
        keys = [ck.TopicPartition(each.topic, each.partition) for each in self._capsule.slices]
        for place in client.committed(keys):
            if place.offset >= 0:
                self.replayed.committed[f"{place.topic}-{place.partition}"] = place.offset
        client.close()


@contextmanager
def _made_here(cluster: SimulatedCluster) -> Iterator[None]:
    """Topics that the graph writes are created when they are missing; the producers' warning of that is for real brokers."""
    changed, before = cluster.topics.changed, made_here.copy()

    def created(delta: ImageDelta) -> None:
        made_here.update(topic.name for topic in delta.created)
        changed(delta)

    cluster.topics.changed = created
    try:
        yield
    finally:
        made_here.intersection_update(before)


@contextmanager
def _state_in(world: SimulatedWorld) -> Iterator[None]:
    """Keep state on disk in a folder of the world, not in the user's, which a live instance may use."""
    module: Any = changelog_provider
    real = module.StateFolder

    def folder(state: State, application: str) -> Any:
        return real(State(world.folder(INSTANCE), state.cache_bytes, state.quota_bytes), application)

    module.StateFolder = folder
    try:
        yield
    finally:
        module.StateFolder = real
