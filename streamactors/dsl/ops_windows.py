"""Operators that begin event-time windows and tables on a stream of Records.

The words between are those of `streamactors.windows` (windowed_by, count, reduce, aggregate, suppress …); `to_stream()` ends them
and gives the stream of results. Everything from here to there is one stage. docs/windows.md explains them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.engine.plan import plan_of
from streamactors.windows import fluent
from streamactors.windows.blueprint import Blueprint
from streamactors.windows.compiler import compile
from streamactors.windows.duration import Duration as EventTime
from streamactors.windows.fluent import Grouped as GroupedRecords
from streamactors.windows.fluent import Table
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.stage import WindowStage


class WindowOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def group_by_key(
        self, *, changelog: bool = True, max_task_idle: EventTime | None = 0
    ) -> GroupedRecords[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by the key they have, in windows or without; records whose key is None are dropped and counted.

        The state of what is computed lies in memory; behind a Kafka source a changelog topic keeps it too, in the transaction of the
        run's transactional sink if it has one (exactly once), else acknowledged before the source's positions are committed (at
        least once). `changelog=False`: it is lost with a restart.

        Where several topics are read, rows of partitions of one number go by their timestamps: a topic that has nothing ready is waited
        for until it has, or the broker has told that it has no more, and then for `max_task_idle` longer, for rows that are still to
        come. None: it is not waited for at all.

        Emits when: an update, or a window's result, is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results are out; the end of an input gives out what is held.
        Cancels when: downstream cancels.
        Supervision: resume and restart drop the row whose function raised; the windows keep their state.
        """
        return _Continued(self).group_by_key(changelog=changelog, max_task_idle=max_task_idle)

    def key_by(
        self, fn: Callable[[Out], Any], *, changelog: bool = True
    ) -> GroupedRecords[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by a new key, `fn(record)`; a key of None drops the record, counted.

        Behind a Kafka source the rows go through a topic first, "<group>-<name>-repartition", which is created with as many
        partitions as the input, so that one new key lies in one partition; the graph shows it being written and read.
        Fails when: the rows come from several partitions in another way, since one new key would lie in several.
        Else as group_by_key.
        """
        return _Continued(self).key_by(fn, changelog=changelog)

    def to_table(
        self, *, name: str | None = None, changelog: bool = True, max_task_idle: EventTime | None = 0
    ) -> Table[Ops[Record, Mat]]:
        """Take Records as the latest value of each key; a value of None deletes. `changelog`, `max_task_idle` as in group_by_key.

        Emits when: an update is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results are out.   Cancels when: downstream cancels.
        """
        return _Continued(self).to_table(name=name, changelog=changelog, max_task_idle=max_task_idle)


class _Continued(fluent.WindowOps[Any, Any]):
    """A part, to be continued behind a finished blueprint."""

    def __init__(self, part: Ops[Any, Any]) -> None:
        self._part = part

    def via_windows(self, blueprint: Blueprint) -> Any:
        part = self._part
        sources = _partitioned_sources(part) if blueprint.changes_keys else []
        if sources:
            blueprint, key_of = blueprint.with_keys_given()
            through: Any = sources[-1].repartitioned(key_of, blueprint.nodes[0], sources[0].until_end)
            part = cast("Any", part).via(through)
        stage = WindowStage(compile(blueprint))
        if blueprint.late is None:
            return part._via(stage)
        return part._fan_out(stage, blueprint.late)


def _partitioned_sources(part: Ops[Any, Any]) -> list[Any]:
    """The sources of a part, in its order, whose rows lie in partitions by their key and that can bring them under another."""
    if part.module.shape.inlets:
        return []
    return [node.stage for node in plan_of(part.module).nodes if hasattr(node.stage, "repartitioned")]
