"""Reads a cluster as any client can: topics, partitions with their brokers and offsets, groups with their lag, topics of dead letters, and what
`cluster_questions.py` asks. Of a cluster that this process has started also what only the brokers themselves know: times of requests and of the disk.

Owner: threads of their own (`polled.py`), which ask every two seconds while somebody reads, since a cluster that is in trouble answers late. It works with any
Kafka; what only the broker itself knows is null there. `cluster_state.py` puts the answers together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from streamactors.dashboard.model import DeadLettersState
from streamactors.dashboard.model_cluster import BrokerState
from streamactors.dashboard.reading.cluster_questions import Asked, ClusterQuestions
from streamactors.dashboard.reading.cluster_state import (
    IsrChanges,
    Offsets,
    cluster_state,
    groups_of,
    rates_of,
    with_internals,
)
from streamactors.dashboard.reading.dead_letters import DeadLettersLook
from streamactors.dashboard.reading.polled import Polled
from streamactors.engine.island.run import Run
from streamactors.errors import StreamActorsError
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.settings import ClientSettings, ConsumerSettings

EVERY_S: Final = 2.0
INSIDE_EVERY_S: Final = 1.0


class Answer(NamedTuple):
    """What a look at the cluster has found. `stable`: the ends of what readers of committed records can read."""

    state: BrokerState
    starts: Offsets
    stable: Offsets


class BrokerReader:
    """Reads while somebody looks at the page. `properties` are librdkafka's, with `bootstrap.servers`. `internals()` returns what each broker knows of itself, see `Cluster.internals`."""

    asks_others = True

    def __init__(
        self, properties: Mapping[str, Any], internals: Callable[[], list[dict[str, Any]]] | None = None
    ) -> None:
        servers = properties["bootstrap.servers"]
        others = {key: value for key, value in properties.items() if key != "bootstrap.servers"}

        def cluster() -> tuple[Callable[[], Answer], Callable[[], object]]:
            look = _Look(properties, ClientSettings(servers, properties=others))
            return look.take, look.close

        def letters() -> tuple[Callable[[], tuple[DeadLettersState, ...]], Callable[[], object]]:
            reading = ConsumerSettings(servers, properties=others)
            look = DeadLettersLook(RangeReader(reading, skip_lost=True, stopped=lambda: self._letters.is_closed))

            def ask() -> tuple[DeadLettersState, ...]:
                known = self._cluster.last
                return () if known is None else look.look(known.starts, known.stable)

            return ask, look.close

        self._servers = servers
        self._cluster = Polled("cluster", cluster, EVERY_S)
        self._letters = Polled("dead letters", letters, EVERY_S)
        self._inside = (
            None if internals is None else Polled("brokers", lambda: (internals, lambda: None), INSIDE_EVERY_S)
        )

    @property
    def problem(self) -> str | None:
        """Why the cluster cannot be read now."""
        why = self._cluster.problem
        return None if why is None else f"the cluster at {self._servers} cannot be read: {why}"

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return `broker`, the newest answer, None before the first one, and `dead_letters`."""
        answer, letters = self._cluster.read(now_s), self._letters.read(now_s)
        state = None if answer is None else answer.state
        inside = None if self._inside is None else self._inside.read(now_s)
        if inside:
            state = with_internals(state or BrokerState(), inside)
        return {"broker": state, "dead_letters": letters or ()}

    def close(self) -> None:
        """End the threads; one that waits for the cluster ends with its answer."""
        for each in (self._cluster, self._letters, self._inside):
            if each is not None:
                each.close()


class _Look:
    """The connections of one thread, made at the first look and again after an error, and what the look before has found."""

    def __init__(self, properties: Mapping[str, Any], settings: ClientSettings) -> None:
        self._properties = properties
        self._settings = settings
        self._admin: Admin | None = None
        self._questions: ClusterQuestions | None = None
        self._before: tuple[float, Offsets] | None = None
        self._isr = IsrChanges()

    def take(self) -> Answer:
        """Return the state of the cluster now. Raises the connector's errors."""
        admin = self._admin = self._admin or Admin(self._settings)
        placements = admin.placements()
        ends = admin.offsets(dict.fromkeys(placements, LATEST), unknown_ok=True)
        starts = admin.offsets(dict.fromkeys(placements, EARLIEST), unknown_ok=True)
        now = (time.monotonic(), ends)
        asked = self._ask()
        state = cluster_state(
            placements,
            starts,
            ends,
            groups_of(admin, ends, asked.kinds),
            rates_of(self._before, now),
            asked,
            self._isr.seen(placements, int(time.time() * 1000)),
        )
        self._before = now
        # up to the last stable offset: after it, behind an open transaction, a reader would wait for its end
        return Answer(state, starts, admin.offsets(dict.fromkeys(placements, LATEST), committed=True, unknown_ok=True))

    def _ask(self) -> Asked:
        try:
            questions = self._questions = self._questions or ClusterQuestions(self._properties)
            return questions.ask()
        except StreamActorsError:
            if self._questions is not None:
                self._questions.close()
                self._questions = None
            raise

    def close(self) -> None:
        """Disconnect."""
        for each in (self._questions, self._admin):
            if each is not None:
                each.close()
