"""GraphRun: one run of a graph on executors. It prepares the checkpoint and the parcel, starts Spark's query, and holds the handles.

Threads: the caller's, which builds it; the runner's, on which the query is prepared, started and awaited; Spark's callback thread, which
writes batches. They share the handles only."""

from __future__ import annotations

import importlib
import json
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamactors.errors import StreamActorsError
from streamactors.kafka.client.ranges import TO_SKIP
from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.kafka.reading.messages import Commits, TakeSnapshot
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.state.changelogs.changelog_topics import ON_EXECUTORS
from streamactors.kafka.subscriptions import ManualSubscription, TopicPartition
from streamactors.spark.errors import SparkError, SparkQueryFailed
from streamactors.spark.executors import entry, offsets
from streamactors.spark.executors.carried import (
    carry_back,
    carry_back_positions,
    carry_in,
    catch_up,
    check_not_overtaken,
    has_all_states,
    written,
)
from streamactors.spark.executors.folders import folder_at
from streamactors.spark.executors.graph_chain import WHO
from streamactors.spark.executors.planner import Plans
from streamactors.spark.executors.program import Windows
from streamactors.spark.executors.query import ShippedQuery
from streamactors.spark.executors.states import States
from streamactors.spark.executors.topic_end import TopicEnd
from streamactors.spark.executors.translate import Translated
from streamactors.spark.executors.two_kinds import both, late_of, results_of
from streamactors.spark.files import Files
from streamactors.spark.query.checkpoint import Checkpoint
from streamactors.spark.query.kept_windows import lengths
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.query.query_name import QueryName
from streamactors.spark.query.runner import BatchFunction, QueryRunner
from streamactors.spark.query.source_identity import SourceIdentity
from streamactors.spark.schema import RowSchema
from streamactors.spark.session.formats import register_format
from streamactors.spark.shipping import entry as shipping_entry
from streamactors.spark.shipping.parcel import by_value, made_with, pack
from streamactors.spark.sink.settings import SinkTarget

STATES: Final = "streamactors-state"
_OURS: Final = re.compile(r"^(streamactors(?:\.\w+)*)\.(\w+): (.*)$", re.MULTILINE)
_USERS: Final = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Full)): (.*)$", re.MULTILINE
)


class GraphRunner(QueryRunner):
    """Runs the query over the data source of one graph."""

    def frame(self, options: Mapping[str, str]) -> Any:
        return self._spark.readStream.format(options["format"]).schema(self._schema).load()

    def failure(self, text: str) -> BaseException:
        return _raised_there(text) or super().failure(text)

    def meant(self, raised: BaseException) -> BaseException | None:
        """As QueryRunner. If the user's function failed because a task failed, return the task's error."""
        from pyspark.errors import PySparkException

        found = super().meant(raised)
        if isinstance(found, PySparkException):
            cause = _raised_there(str(found))
            if cause is not None:
                cause.__cause__ = found
                return cause
        return found


def _raised_there(text: str) -> BaseException | None:
    """Return the error that a process of Spark raised, from Spark's message; an error of this package gets its own class again."""
    for module, name, message in reversed(
        _OURS.findall(text)
    ):  # a trace ends with the error, after those that it came from
        kind = getattr(importlib.import_module(module), name, None)
        if isinstance(kind, type) and issubclass(kind, StreamActorsError):
            try:
                return kind(message)
            except Exception:  # noqa: BLE001  # the class wants what its sentence was made of
                return SparkQueryFailed(f"a task failed: {name}: {message}")
    told = _USERS.findall(text)
    notes = re.findall(r"^in stage .*$", text, re.MULTILINE)
    if told:
        kind, message = told[-1]
        return SparkQueryFailed(f"a task failed: {kind}: {message}{f' ({notes[-1]})' if notes else ''}")
    return None


@dataclass
class Late:
    """Where late rows go: their schema, and how a batch of them is written."""

    schema: RowSchema
    write: BatchFunction


class GraphRun:
    """One run. `control` and `query` are the handles that the graph materializes."""

    def __init__(self, graph: Translated, target: SinkTarget, late: Late | None, topic: TopicEnd | None = None) -> None:
        self._graph = graph
        self.target = target
        self._late = late
        self._topic = topic
        self._skip_lost = not target.settings.fail_on_data_loss
        self.query = SparkStreamQuery()
        self.control = Control()
        self.on_started: Callable[[Any], None] = lambda query: None
        """Called with Spark's query when it has started, on the runner's thread."""
        self._drain_file = Path(tempfile.gettempdir()) / f"streamactors-drain-{uuid.uuid4().hex}"
        plan = graph.plan
        self._start_positions = StartPositions(plan.settings, plan.subscription, plan.until_end, lambda _: None)
        self._checkpoint: Checkpoint | None = None
        self._first: dict[str, int] = {}
        schema = target.schema if late is None else both(target.schema, late.schema)
        self._schema = schema
        pack(graph.program, WHO, graph.links)  # what cannot be sent is an error of the caller, not of the query
        trigger = target.trigger
        if plan.until_end:
            trigger = {"availableNow": True}
        self._runner = GraphRunner(
            target.spark,
            self._write,
            schema.spark,
            target.checkpoint,
            trigger,
            _name_of(graph, target),
            prepare=self._prepare,
            on_started=self._told_started,
            on_ended=self._ended,
        )
        self.query.attach(self.stop, self.counts, self.ends)
        self.control.attach(self.asked, self.drain)

    def start(self) -> None:
        """Start the query; returns at once."""
        self._runner.start()

    def stop(self) -> None:
        """Stop the query; any thread, returns at once."""
        self._runner.stop()

    def drain(self) -> None:
        """Stop the query when the batch that is being written is in the checkpoint; any thread, returns at once."""
        self._drain_file.touch()
        self._runner.stop_between_batches()

    def carry_back(self, producer: ProducerSettings) -> dict[TopicPartition, int]:
        """Carry the positions back to the group, and the state of windows to their changelogs, in place of a run; return the positions."""
        checkpoint, windows = self._open_checkpoint(), self._graph.program.windows
        try:
            files = Files(self.target.spark, self.target.checkpoint)
            if windows is None:
                return carry_back_positions(self._graph.plan.settings, files)
            states = States(folder_at(f"{self.target.checkpoint}/{STATES}"))
            return carry_back(windows, self._graph.plan.settings, files, states, producer)
        finally:
            checkpoint.close()

    # ── on the runner's thread ────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> dict[str, str]:
        target, graph = self.target, self._graph
        plan = graph.plan
        positions = self._start_positions
        windows = graph.program.windows
        self._checkpoint = checkpoint = self._open_checkpoint()
        positions.check_group()
        self._first = first = checkpoint.initial(self._begin)
        self._compare_with_other_runs(first)
        done, _ = written(Files(target.spark, target.checkpoint), first)
        positions.existing(unnamed(done), skip_lost=self._skip_lost)
        partitions = {offsets.key_of(name).partition for name in first}
        if windows is not None:
            windows.partitions = len(partitions)
        plans = plans_of(
            plan,
            positions,
            first,
            windows=windows,
            state_folder=f"{target.checkpoint}/{STATES}",
            max_rows=target.max_rows,
            target_ms=target.target_ms,
            skip_lost=self._skip_lost,
            drain_file=str(self._drain_file),
            note=f"{ON_EXECUTORS}{target.checkpoint}" if self._carries else "",
        )
        parcel = pack(ShippedQuery(plans, graph.program, self._schema.arrow, self._topic), WHO, graph.links)
        return {"format": registered(target.spark, parcel)}

    def _open_checkpoint(self) -> Checkpoint:
        """Return the checkpoint, locked and checked. Raises CheckpointError."""
        target, positions, windows = self.target, self._start_positions, self._graph.program.windows
        stores = None
        if windows is not None:
            nodes = windows.factory.topology.stores
            stores = {"stores": list(nodes), "application": windows.application, "windows": lengths(nodes)}
        checkpoint = Checkpoint(Files(target.spark, target.checkpoint))
        identity = SourceIdentity(positions.label, positions.identity())
        checkpoint.open([identity], target.schema.spark.simpleString(), stores, target.query_table)
        return checkpoint

    def _begin(self) -> dict[str, int]:
        """Return where a query with a new checkpoint begins, and carry in the state that changelogs have of its windows."""
        first = named(self._start_positions.initial(skip_lost=self._skip_lost))
        windows = self._graph.program.windows
        if windows is not None and self._carries:
            group = None if self._topic is None else self._topic.group
            states = States(folder_at(f"{self.target.checkpoint}/{STATES}"))
            carry_in(windows, self._graph.plan.settings, first, states, group)
        return first

    def _compare_with_other_runs(self, first: dict[str, int]) -> None:
        """Take over, or refuse, what a run in one process has written since the last run on executors. Raises CheckpointError."""
        topic, plan = self._topic, self._graph.plan
        if topic is None:
            return
        files = Files(self.target.spark, self.target.checkpoint)
        positions, is_whole = written(files, first)
        if topic.results and positions != first:
            if plan.commits is Commits.MARKS:
                check_not_overtaken(plan.settings, files, positions)
        elif self._graph.program.windows is None:  # what is before the positions was written, here or there
            catch_up(plan.settings, topic.group, positions, first if is_whole else None)

    @property
    def _carries(self) -> bool:
        """True for windows that keep changelogs in one process."""
        windows = self._graph.program.windows
        return windows is not None and windows.factory.intake.changelog and self._graph.plan.keeps_changelog

    def _told_started(self, query: Any) -> None:
        self.query.started(query)
        self.on_started(query)

    def _ended(self, error: BaseException | None) -> None:
        if self._checkpoint is not None:
            self._checkpoint.close()
        self._drain_file.unlink(missing_ok=True)
        self.query.end(error)
        self.control.closed(self.snapshot())
        if error is None:
            self.control.is_shutdown.try_complete(None)
        else:
            self.control.is_shutdown.try_fail(error)

    # ── on Spark's callback thread ────────────────────────────────────────────────────────────────────────────────

    def _write(self, frame: Any, epoch: int, query_id: str) -> None:
        writes_topic = self._topic is not None and not self._topic.takes_all
        if self._late is None and not writes_topic:
            self.target.write(frame, epoch, query_id)
            self._run_to_the_end(frame, epoch)
            return
        frame = frame.persist()  # two writers, one run of the tasks
        try:
            if self._late is None:
                frame.count()  # each task runs to its end and commits what it wrote, whatever the function takes of the rows
                self.target.write(frame, epoch, query_id)
                return
            self.target.write(results_of(frame), epoch, query_id)
            self._late.write(late_of(frame), epoch, query_id)
            self._run_to_the_end(frame, epoch)
        finally:
            frame.unpersist()

    def _run_to_the_end(self, frame: Any, epoch: int) -> None:
        """Run the tasks that the user's function stopped before their end (`df.limit`, `df.show`): only there a task writes its state."""
        target = self.target
        takes_all = target.table is not None or (self._topic is not None and self._topic.takes_all)
        if takes_all or self._graph.program.windows is None:
            return
        files = Files(target.spark, target.checkpoint)
        states = States(folder_at(f"{target.checkpoint}/{STATES}"))
        if not has_all_states(files, states, epoch, self._first):
            frame.count()

    # ── for the handles; any thread ───────────────────────────────────────────────────────────────────────────────

    def counts(self) -> dict[str, Any]:
        """Return the counts of `SparkStreamQuery.progress`."""
        progress = self._last_progress()
        source = (progress or {}).get("sources", [{}])[0]
        end = source.get("endOffset") or {}
        found = json.loads(end) if isinstance(end, str) else dict(end)
        phase = "running" if self.query.is_active else "over"
        return {
            "phase": phase,
            "checkpoint": offsets.positions(found),
            "batches": (progress or {}).get("batchId", -1) + 1,
            "batch_rows": (progress or {}).get("numInputRows", 0),
        }

    def _last_progress(self) -> dict[str, Any] | None:
        query = self.query.spark_query
        try:
            last = None if query is None else query.lastProgress
        except Exception:  # noqa: BLE001  # the JVM has gone
            return None
        return None if last is None else json.loads(last.json) if hasattr(last, "json") else dict(last)

    def ends(self) -> dict[str, int]:
        """Return the ends of the partitions."""
        return named(self._start_positions.ends())

    def snapshot(self) -> dict[str, Any]:
        """Return the answer to `Control.snapshot`."""
        return {**self.counts(), "partitions": {}}

    def asked(self, message: Any) -> None:
        """Take a message of a control."""
        if isinstance(message, TakeSnapshot):
            message.reply.try_complete(self.snapshot())
        else:
            raise SparkError(
                f"{type(message).__name__}: executors read ranges that Spark's batches name; stop the query, or give it a smaller max_rows"
            )


def _name_of(graph: Translated, target: SinkTarget) -> QueryName:
    """Return the name of a graph's query: the one that is given, or one from its sink."""
    if target.settings.query_name is not None:
        return QueryName(target.settings.query_name)
    named = graph.sink.attributes.name
    label, group = (graph.topic or graph.sink.stage).label, graph.plan.settings.group_id
    return QueryName(named or (f"{label} {group}" if group else label), is_given=False)


def plans_of(
    plan: ReadPlan,
    positions: StartPositions,
    first: dict[str, int],
    *,
    windows: Windows | None = None,
    state_folder: str = "",
    max_rows: int,
    target_ms: float,
    skip_lost: bool,
    to_skip: str = TO_SKIP,
    drain_file: str = "",
    note: str = "",
    source: SourceIdentity | None = None,
) -> Plans:
    """Return what the planner of a query needs to know. Asks the broker for the ends of a bounded read."""
    is_assigned = isinstance(plan.subscription, ManualSubscription)
    return Plans(
        settings=plan.settings,
        subscription=plan.subscription,
        first=first,
        ends=named(positions.ends()) if plan.until_end else None,
        commits=plan.commits is Commits.MARKS,
        windows=windows is not None,
        idle_after_ms=None if windows is None else windows.factory.idle_after_ms,
        state_folder=state_folder,
        max_rows=max_rows,
        target_ms=target_ms,
        skip_lost=skip_lost,
        to_skip=to_skip,
        drain_file=drain_file,
        note=note,
        source=source,
        topics=() if is_assigned else tuple(sorted({offsets.key_of(name).topic for name in first})),
    )


def registered(spark: Any, parcel: bytes) -> str:
    """Register a query's data source in a session; return the name of its format."""
    name = f"streamactors_{uuid.uuid4().hex}"
    with by_value(entry, shipping_entry):
        register_format(spark, entry.source_of(name, parcel, made_with()))
    return name


def named(found: Mapping[str, int]) -> dict[str, int]:
    return {f"{offsets.SOURCE}{name}": place for name, place in found.items()}


def unnamed(found: Mapping[str, int]) -> dict[str, int]:
    """End `named`."""
    return {name.removeprefix(offsets.SOURCE): place for name, place in found.items()}
