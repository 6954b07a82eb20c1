"""Reads the consumers of a process: positions, lag in records and in seconds, pauses, and the oldest mark with the sink that holds it.

Owner: the sampler. All consumers are asked at once, and one that does not answer within a tenth of a second is looked at from outside."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.dashboard.model import (
    ConsumerState,
    OldestMark,
    PartitionState,
    RebalanceState,
    TransactionsState,
)
from streamactors.engine.island.run import Run
from streamactors.kafka.controls.control import RUNNING, Control
from streamactors.kafka.transactions.run_transaction import RunTransaction

ANSWERS_S: Final = 0.1
RATES: Final = 4
"""Rates are of the last three seconds."""

Past = deque[tuple[float, int]]


class PartitionsReader:
    """Reads the consumers of the given runs, or all of the process."""

    def __init__(self, controls: Iterable[Control] = RUNNING) -> None:
        self._controls = controls
        self._past: dict[tuple[int, str], Past] = {}

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return `consumers`."""
        wanted = set(runs)
        past, self._past = self._past, {}
        asked = []
        for control in list(self._controls):
            run = control.run() if control.run is not None else None
            if control.look is not None and (run is None or run in wanted):
                asked.append((control, run, control.ask_snapshot()))
        until = time.monotonic() + ANSWERS_S
        found = [
            self._consumer(control, run, self._answer(control, reply, until), now_s, past)
            for control, run, reply in asked
        ]
        return {"consumers": tuple(sorted(found, key=lambda each: (each.graph, each.group)))}

    @staticmethod
    def _answer(control: Control, reply: StreamFuture[dict[str, Any]], until: float) -> dict[str, Any]:
        """Return the consumer's answer; if there is none in time, what can be seen from outside: the consumer may wait in a rebalance."""
        assert control.look is not None
        try:
            return reply.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            return control.look()

    def _consumer(
        self,
        control: Control,
        run: Run | None,
        snapshot: dict[str, Any],
        now_s: float,
        past: dict[tuple[int, str], Past],
    ) -> ConsumerState:
        held = _held(run)
        partitions = []
        for key, known in snapshot["partitions"].items():
            rates = past.get((id(control), key)) or deque(maxlen=RATES)
            if known["position"] is not None:
                rates.append((now_s, known["position"]))
            self._past[id(control), key] = rates
            partitions.append(_partition(key, known, rates, held))
        return ConsumerState(
            control.graph,
            control.group,
            snapshot.get("client", ""),
            snapshot["demand"],
            snapshot["delivered"],
            snapshot["pauses"],
            snapshot["resumes"],
            tuple(partitions),
            tuple(
                RebalanceState(each.at_ms, each.kind, each.partitions, each.why, each.took_ms, each.count)
                for each in control.rebalances()
            ),
            _transactions(run),
        )


def _transactions(run: Run | None) -> TransactionsState | None:
    """Return the transactions of a run; None if it has none."""
    known = run.known(RunTransaction) if run is not None else None
    if known is None:
        return None
    said = known.report()
    return TransactionsState(**said) if said["id"] else None


def _partition(key: str, known: dict[str, Any], rates: Past, held: dict[str, tuple[str, float]]) -> PartitionState:
    topic, _, number = key.rpartition("-")
    position, done = known["position"], known["done"]
    rate = (rates[-1][1] - rates[0][1]) / (rates[-1][0] - rates[0][0]) if len(rates) > 1 else 0.0
    oldest = None
    if done is not None and position is not None and done < position and key in held:
        sink, silent_ms = held[key]
        oldest = OldestMark(done, int(silent_ms), sink)
    return PartitionState(
        topic,
        int(number),
        position,
        done,
        known["committed"],
        known["end"],
        known.get("begin"),
        known["lag"],
        known["lag_seconds"],
        known["buffered_records"],
        known["buffered_bytes"],
        bool(known["paused"] or known["paused_by_user"]),
        known["paused_by"],
        known["in_flight"],
        oldest,
        round(max(0.0, rate), 3),
    )


def _held(run: Run | None) -> dict[str, tuple[str, float]]:
    """Return for each partition the sink whose reported position is the lowest, and since when it has reported nothing."""
    if run is None:
        return {}
    lowest: dict[str, tuple[int, str, float]] = {}
    for sink, (done, silent_ms) in run.progress.waiting_for().items():
        for key, place in done.items():
            partition = str(key[1])
            if isinstance(place[1], int) and (partition not in lowest or place[1] < lowest[partition][0]):
                lowest[partition] = (place[1], getattr(sink, "name", ""), silent_ms)
    return {key: (sink, silent_ms) for key, (_, sink, silent_ms) in lowest.items()}
