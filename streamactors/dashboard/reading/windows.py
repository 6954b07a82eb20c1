"""Reads the window tasks and the stores of the runs: event time, open windows, what suppression holds, late rows, sizes of stores.

Owner: the sampler. Each windowed stage is asked once a second, looks at its own tasks on its island, and answers in numbers; a stage that is busy for longer
is shown as it was a second ago."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.dashboard.model import LateRow, StoreState, WindowsState
from streamactors.dashboard.reading.graphs import short
from streamactors.dashboard.redacting import Redact, redacted
from streamactors.engine.island.run import Run
from streamactors.kafka.state.changelogs.watching import COPIES, RESTORES
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.topology.window_task import WindowTask

_log = logging.getLogger("streamactors.dashboard")

ANSWERS_S: Final = 0.1

Answer = tuple[tuple[WindowsState, ...], tuple[StoreState, ...]]
NOTHING: Final[Answer] = ((), ())


class WindowsReader:
    """Reads the windowed stages. `redact(key)` returns what is shown instead of the key of a late row."""

    def __init__(self, redact: Redact | None = None) -> None:
        self._redact = redact
        self._known: dict[Any, Answer] = {}

    def read(self, now_s: float, runs: Iterable[Run]) -> dict[str, Any]:
        """Return `windows` and `stores`."""
        asked = [(logic, _ask(logic, self._redact)) for logic in _windowed(runs)]
        until = time.monotonic() + ANSWERS_S
        known, self._known = self._known, {}
        for logic, reply in asked:
            try:
                self._known[logic] = reply.result(max(0.0, until - time.monotonic()))
            except TimeoutError:
                self._known[logic] = known.get(logic, NOTHING)
            except Exception:  # noqa: BLE001  # the stage has ended, or its tasks end just now
                _log.debug("a windowed stage could not be read", exc_info=True)
        windows = [each for answer in self._known.values() for each in answer[0]]
        stores = [each for answer in self._known.values() for each in answer[1]]
        stores += [*_restores(), *_copies()]
        return {
            "windows": tuple(sorted(windows, key=lambda each: (each.graph, each.task))),
            "stores": tuple(sorted(stores, key=lambda each: (each.graph, each.name, each.task, each.standby))),
        }


def _restores() -> Iterator[StoreState]:
    """Yield the changelogs that are being read in this process."""
    for each in list(RESTORES):
        yield StoreState(
            "", short(each.what), "changelog", restored=each.entries, restore_total=each.offsets, restoring=True
        )


def _copies() -> Iterator[StoreState]:
    """Yield the standby copies of this process: what they have taken is all but their lag, which is shown as entries that are still to restore."""
    for copies in list(COPIES):
        for each in copies.look():
            name = short(", ".join(each.stores))
            yield StoreState(
                "",
                name,
                "disk",
                f"0_{each.partition}",
                True,
                bytes=each.bytes,
                restored=0,
                restore_total=each.lag,
                restoring=each.lag > 0,
            )


def _windowed(runs: Iterable[Run]) -> Iterator[Any]:
    for run in runs:
        for interpreter in run.interpreters():
            for logic in list(interpreter.logics):
                if isinstance(getattr(logic, "tasks", None), PartitionTasks) and not logic.stopped:
                    yield logic


def _ask(logic: Any, redact: Redact | None) -> StreamFuture[Answer]:
    """Have a stage look at its tasks, on its island; return the future of what it finds."""
    reply: StreamFuture[Answer] = StreamFuture("windows")

    def look(_: Any) -> None:
        try:
            reply.try_complete(states_of(logic.attributes.graph or logic.name, logic.tasks.tasks.values(), redact))
        except Exception as error:  # noqa: BLE001  # it must not fail the stage
            reply.try_fail(error)

    logic.interpreter.post(logic, look, None)
    return reply


def states_of(graph: str, tasks: Iterable[WindowTask], redact: Redact | None = None) -> Answer:
    """Return the states of tasks and of their stores. On the thread that owns the tasks."""
    tasks = list(tasks)
    return (
        tuple(window_state(graph, task, redact) for task in tasks),
        tuple(state for task in tasks for state in store_states(graph, task)),
    )


def window_state(graph: str, task: WindowTask, redact: Redact | None = None) -> WindowsState:
    """Return the state of one task."""
    counts, opened = task.metrics, task.open_windows
    return WindowsState(
        graph,
        counts.task_id,
        task.stream_time_ms,
        None if opened is None else opened.open,
        None if opened is None else opened.next_close_ms,
        task.holds if counts.suppressed else None,
        counts.dropped_late,
        tuple(
            LateRow(redacted(key, redact, lambda shown: short(repr(shown))), timestamp, max(0, stream_time - timestamp))
            for key, timestamp, stream_time in counts.late_rows
        ),
        counts.dropped,
        counts.rows,
    )


def store_states(graph: str, task: WindowTask) -> Iterator[StoreState]:
    """Yield the states of the stores of one task."""
    id_ = task.metrics.task_id
    if task.disk is None:
        sizes = task.entries_in_memory
        for name in task.stores:
            yield StoreState(graph, name, "memory", id_, entries=sizes.get(name))
        return
    size, hits = task.disk.bytes_on_disk, task.disk.hits
    for name in task.stores:
        yield StoreState(graph, name, "disk", id_, bytes=size, cache_hits=hits.get(name))
