"""Operators that begin event-time windows and tables on a stream of Records.

The methods that follow are those of `streamactors.windows` (windowed_by, count, reduce, aggregate, suppress …); `to_stream()` returns
the stream of results. Everything in between is one stage. docs/windows.md explains the methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out

if TYPE_CHECKING:
    from streamactors.windows.definitions.duration import Duration as EventTime
    from streamactors.windows.record import Record, WindowedRecord
    from streamactors.windows.topology.grouped import GroupedStream
    from streamactors.windows.topology.table import TopologyTable


class WindowOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def group_by_key(
        self, *, changelog: bool = True, max_task_idle: EventTime | None = 0
    ) -> GroupedStream[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by their key, in windows or without; records whose key is None are dropped and counted.

        The state is in memory. Behind a Kafka source a changelog topic keeps it, too: written in the transaction of the run's
        transactional sink if there is one (exactly once), else acknowledged before the source's positions are committed (at least
        once). `changelog=False`: a restart loses the state.

        When several topics are read, the rows of partitions with the same number are processed in the order of their timestamps. The
        stage waits for a topic without ready rows until rows come or the broker reports the end of the partition, and then for
        `max_task_idle` longer. None: the stage does not wait.

        Emits when: an update, or a window's result, is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results have been emitted; the end of an input releases its held results.
        Cancels when: downstream cancels.
        Supervision: resume and restart drop the row whose function raised; the windows keep their state.
        """
        from streamactors.dsl.continued import records_of

        return records_of(self).group_by_key(changelog=changelog, max_task_idle=max_task_idle)

    def key_by(
        self, fn: Callable[[Out], Any], *, changelog: bool = True
    ) -> GroupedStream[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by a new key, `fn(record)`; a record whose new key is None is dropped and counted.

        Behind a Kafka source the rows pass through a topic, "<group>-<name>-repartition", which is created with as many partitions as
        the input, so that all rows of a new key are in one partition; the graph's picture shows the topic.
        Fails when: the rows come from several partitions but not from a Kafka source, because a new key could be in several.
        Otherwise as group_by_key.
        """
        from streamactors.dsl.continued import keyed_by

        return keyed_by(self, fn, changelog=changelog)

    def to_table(
        self, *, name: str | None = None, changelog: bool = True, max_task_idle: EventTime | None = 0
    ) -> TopologyTable[Ops[Record, Mat]]:
        """Take each Record as the latest value of its key; a value of None deletes. `changelog`, `max_task_idle` as in group_by_key.

        Emits when: an update is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        """
        from streamactors.dsl.continued import records_of

        return records_of(self).to_table(name=name, changelog=changelog, max_task_idle=max_task_idle)
