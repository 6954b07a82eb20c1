"""Operators on a stream of Records that keep a state for each key: event-time windows, tables, processors.

What follows `group_by_key`, `key_by` and `to_table` are the methods of `streamactors.windows` (windowed_by, count, reduce, aggregate,
suppress …); `to_stream()` returns the stream of results. Everything in between is one stage. `process`, `process_values`, `keyed` and
`join_lookup` are a stage each. docs/windows.md and docs/tables.md explain the methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out

if TYPE_CHECKING:
    from streamactors.durations import Duration, EventSpan
    from streamactors.windows.definitions.windowing import Semantics
    from streamactors.windows.processors.definitions import Processor
    from streamactors.windows.processors.store_definitions import StoreDefinition
    from streamactors.windows.record import Record, WindowedRecord
    from streamactors.windows.topology.grouped import GroupedStream
    from streamactors.windows.topology.table import TopologyTable


class WindowOps(Ops[Out, Mat]):
    """Operators on Records that keep a state for each key: windows, tables, processors."""

    __slots__ = ()

    def group_by_key(
        self, *, changelog: bool = True, max_task_idle: Duration | None = 0
    ) -> GroupedStream[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by their key, in windows or without; records whose key is None are dropped and counted.

        The state is in memory. With a Kafka source a changelog topic keeps it, too: written in the transaction of the run's
        transactional sink if there is one (exactly once), else acknowledged before the source's positions are committed (at least
        once). `changelog=False`: a restart loses the state.

        When several topics are read, the rows of partitions with the same number are processed in the order of their timestamps. The
        stage waits for a topic without ready rows until rows come or the broker reports the end of the partition, and then for
        `max_task_idle` (seconds, a timedelta or a string) longer. None: the stage does not wait.

        Emits when: an update, or a window's result, is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results have been emitted; the end of an input releases its held results.
        Cancels when: downstream cancels.
        Supervision: resume and restart drop the row whose function raised; the windows keep their state.

        Example:
            a -1-2-3|
            a.map(lambda x: Record('k', x, timestamp=x)).group_by_key().count().to_stream().map(lambda r: r.value)
        """
        from streamactors.dsl.continued import records_of

        return records_of(self).group_by_key(changelog=changelog, max_task_idle=max_task_idle)

    def key_by(
        self, fn: Callable[[Out], Any], *, changelog: bool = True
    ) -> GroupedStream[Ops[Record, Mat], Ops[WindowedRecord, Mat]]:
        """Aggregate Records by a new key, `fn(record)`; a record whose new key is None is dropped and counted.

        With a Kafka source the rows pass through a topic, "<group>-<name>-repartition", which is created with as many partitions as
        the input, so that all rows of a new key are in one partition; the graph's picture shows the topic. `<name>` is that of the
        first step with a state, `count(name="views")` for example; name it, or another step before it changes the topic.
        Fails when: the rows come from several partitions but not from a Kafka source, because a new key could be in several.
        Otherwise as group_by_key.

        Example:
            a -1-2-3|
            rows = a.map(lambda x: Record('k', x, timestamp=x))
            rows.key_by(lambda r: r.value % 2).count().to_stream().map(lambda r: (r.key, r.value))
        """
        from streamactors.dsl.continued import keyed_by

        return keyed_by(self, fn, changelog=changelog)

    def to_table(
        self, *, name: str | None = None, changelog: bool = True, max_task_idle: Duration | None = 0
    ) -> TopologyTable[Ops[Record, Mat]]:
        """Take each Record as the latest value of its key; a value of None deletes. `changelog`, `max_task_idle` as in group_by_key.

        Emits when: an update is due.   Backpressures when: downstream does.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            rows = a.map(lambda x: Record(x % 2, x, timestamp=x))
            rows.to_table().to_stream().map(lambda r: (r.key, r.value))
        """
        from streamactors.dsl.continued import records_of

        return records_of(self).to_table(name=name, changelog=changelog, max_task_idle=max_task_idle)

    def keyed(
        self,
        fn: Callable[[Any, Record], tuple[Any, Iterable[Any]]],
        *,
        initial: Any = None,
        ttl: EventSpan | None = None,
        name: str | None = None,
        changelog: bool = True,
        max_task_idle: Duration | None = 0,
    ) -> Ops[Record, Mat]:
        """Emit the results of `fn(state, record)`, which returns (state, results); each key has a state of its own.

        `initial`: the first state of a key, or a function that returns it. A state of None deletes. A state that was not written for `ttl` of
        event time (ms, a timedelta or a string) is forgotten. A result that is not a Record gets the key, the time and the context of the record. Records whose key is None
        are dropped and counted. `changelog`, `max_task_idle` as in group_by_key; `name`: of the store.

        Emits when: `fn` returns results.   Backpressures when: downstream does.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Supervision: resume and restart drop the row whose function raised; the states stay.

        Example:
            a -1-2-3|
            rows = a.map(lambda x: Record(x % 2, x, timestamp=x))
            rows.keyed(lambda total, r: (total + r.value, [total + r.value]), initial=0).map(lambda r: (r.key, r.value))
        """
        from streamactors.dsl.continued import with_step

        return with_step(  # type: ignore[no-any-return]
            self,
            "keyed",
            lambda rows: rows.keyed(fn, initial=initial, ttl=ttl, name=name),
            changelog=changelog,
            max_task_idle=max_task_idle,
        )

    def process(
        self,
        make: Callable[[], Processor],
        *,
        stores: Sequence[StoreDefinition | str] = (),
        name: str | None = None,
        semantics: Semantics | None = None,
        changelog: bool = True,
        max_task_idle: Duration | None = 0,
    ) -> Ops[Record, Mat]:
        """Emit what a Processor forwards; it gets every Record, one at a time, and keeps its state in `stores`.

        `make`: the class, or a function that returns a processor; each partition has its own. `changelog`, `max_task_idle` as in group_by_key.

        Emits when: the processor forwards a record.   Backpressures when: downstream does.
        Completes when: upstream completes and everything forwarded has been emitted.   Cancels when: downstream cancels.
        Fails when: the processor raises.

        Example:
            a -1-2|
            class Twice(Processor):
                def init(self, context):
                    self.context = context

                def process(self, record):
                    self.context.forward(record)
                    self.context.forward(record.replace(value=-record.value))

            a.map(lambda x: Record('k', x, timestamp=x)).process(Twice).map(lambda r: r.value)
        """
        from streamactors.dsl.continued import with_step

        return with_step(  # type: ignore[no-any-return]
            self,
            "process",
            lambda rows: rows.process(make, stores=stores, name=name, semantics=semantics),
            changelog=changelog,
            max_task_idle=max_task_idle,
        )

    def process_values(
        self,
        make: Callable[[], Processor],
        *,
        stores: Sequence[StoreDefinition | str] = (),
        name: str | None = None,
        semantics: Semantics | None = None,
        changelog: bool = True,
        max_task_idle: Duration | None = 0,
    ) -> Ops[Record, Mat]:
        """As `process`, for a processor that keeps the key of each record.

        Example:
            a -1-2-3|
            class Sum(Processor):
                def init(self, context):
                    self.context, self.total = context, 0

                def process(self, record):
                    self.total += record.value
                    self.context.forward(record.replace(value=self.total))

            a.map(lambda x: Record('k', x, timestamp=x)).process_values(Sum).map(lambda r: r.value)
        """
        from streamactors.dsl.continued import with_step

        return with_step(  # type: ignore[no-any-return]
            self,
            "process_values",
            lambda rows: rows.process_values(make, stores=stores, name=name, semantics=semantics),
            changelog=changelog,
            max_task_idle=max_task_idle,
        )

    def join_lookup(
        self,
        fn: Callable[[Any], Any],
        joiner: Callable[[Any, Any], Any] | None = None,
        *,
        key: Callable[[Record], Any] | None = None,
        how: Literal["inner", "left"] = "inner",
        ttl: Duration | None = None,
        missing_ttl: Duration | None = None,
        max_concurrency: int = 16,
        max_entries: int = 10_000,
        name: str | None = None,
    ) -> Ops[Record, Mat]:
        """Join each Record with the answer of `fn(key)`, which asks a database or a service; None means that it knows no such key.

        The value of a result is `joiner(value, answer)`, by default the pair. `key(record)`: what is asked for, default the record's key. Up to
        `max_entries` answers are kept for `ttl` of the wall clock (seconds, a timedelta or a string), answers of None for `missing_ttl`. The records of a chunk are asked for together, at most
        `max_concurrency` calls at a time, each key once. inner: records whose answer is None are left out; left: `joiner(value, None)`.

        Emits when: the answers of a chunk are there.   Backpressures when: downstream does, or calls run.
        Completes when: upstream completes and all results have been emitted.   Cancels when: downstream cancels.
        Fails when: `fn` raises.

        Example:
            a -1-2-3|
            rows = a.map(lambda x: Record(x, 'n', timestamp=x))
            rows.join_lookup({1: 'one', 3: 'three'}.get).map(lambda r: r.value)
        """
        from streamactors.dsl.continued import with_step

        joined: dict[str, Any] = {} if joiner is None else {"joiner": joiner}
        return with_step(  # type: ignore[no-any-return]
            self,
            "join_lookup",
            lambda rows: rows.join_lookup(
                fn,
                key=key,
                how=how,
                ttl=ttl,
                missing_ttl=missing_ttl,
                max_concurrency=max_concurrency,
                max_entries=max_entries,
                name=name,
                **joined,
            ),
            changelog=False,
        )
