"""Reads the Spark queries of the process: their last batch, the batch that Spark is writing, what they ask for, and the executors.

Owner: the sampler, and a thread that asks Spark's JVM, which may not answer. Nothing of PySpark is imported: a query offers its counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from streamactors.dashboard.model_cluster import ExecutorState, SparkState
from streamactors.dashboard.reading.polled import Polled
from streamactors.engine.island.run import Run, all_runs

EVERY_S: Final = 1.0
EXECUTORS_EVERY: Final = 5
"""Executors are asked for with each fifth question."""
_QUERIES: Final = "streamactors.spark.query.query"


class QueriesReader:
    """Reads the queries of the given runs, and those of graphs that run on Spark's executors, which have no run here."""

    asks_others = True

    def __init__(self) -> None:
        self._since: dict[int, tuple[Any, float]] = {}
        self._queries: dict[Any, tuple[str, str]] = {}
        self._asked = 0
        self._executors: dict[int, tuple[ExecutorState, ...]] = {}
        self._jvm: Polled[Mapping[Any, dict[str, Any]]] = Polled("spark", lambda: (self._ask, lambda: None), EVERY_S)

    @property
    def problem(self) -> str | None:
        """Why Spark could not be asked."""
        return None if self._jvm.problem is None else f"Spark could not be asked: {self._jvm.problem}"

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return `spark`."""
        self._queries = dict(_queries(runs))
        if not self._queries:
            return {"spark": ()}
        known = self._jvm.read(now_s) or {}
        since, self._since = self._since, {}
        found = []
        for query, (name, graph) in self._queries.items():
            counts = known.get(query)
            if counts is None:
                continue
            batch = (counts.get("batches"), counts.get("given_rows"))
            before = since.get(id(query))
            self._since[id(query)] = before if before is not None and before[0] == batch else (batch, now_s)
            state = query_state(name, counts, graph, now_s - self._since[id(query)][1])
            found.append(replace(state, executors=self._executors.get(id(query), ())))
        return {"spark": tuple(found)}

    def close(self) -> None:
        """End the thread."""
        self._jvm.close()

    def _ask(self) -> dict[Any, dict[str, Any]]:
        """Ask each query; on the thread that may wait."""
        queries = list(self._queries)
        if not self._asked % EXECUTORS_EVERY:
            self._executors = {id(query): tuple(_executors(query.executors)) for query in queries}
        self._asked += 1
        return {query: query.progress() for query in queries}


def _queries(runs: Iterable[Run]) -> Iterable[tuple[Any, tuple[str, str]]]:
    """Yield each query with the name of its stage and of its graph."""
    for run in runs:
        yield from ((logic.query, (logic.name, logic.attributes.graph or logic.name)) for logic in _sinks(run))
    module = sys.modules.get(_QUERIES)
    if module is not None:
        of_runs = {logic.query for run in all_runs() for logic in _sinks(run)}
        yield from ((query, ("graph on executors", "")) for query in list(module.RUNNING) if query not in of_runs)


def _sinks(run: Run) -> list[Any]:
    return [
        logic
        for interpreter in run.interpreters()
        for logic in list(interpreter.logics)
        if not logic.stopped and hasattr(getattr(logic, "query", None), "progress")
    ]


def _executors(ask: Callable[[], list[dict[str, Any]]]) -> Iterable[ExecutorState]:
    return [ExecutorState(**each) for each in ask()]


def query_state(name: str, counts: dict[str, Any], graph: str = "", writing_s: float = 0.0) -> SparkState:
    """Return the state of a query: the counts of its stage, and Spark's own progress of the last batch, a row or a mapping. `writing_s`: since when the
    stage has given Spark the same batch. Pure."""
    last = counts.get("spark") or {}
    named = _get(last, "name")
    duration = _get(_get(last, "durationMs") or {}, "triggerExecution")
    writing = counts.get("given_rows") or 0
    return SparkState(
        str(named or name),
        graph,
        str(counts.get("phase") or ""),
        writing,
        int(writing_s * 1000) if writing else None,
        counts.get("gathered_rows"),
        counts.get("batches"),
        _get(last, "numInputRows") if last else None,
        float(duration) if duration is not None else None,
        counts.get("batch_rows"),
    )


def _get(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else getattr(found, name, None)
