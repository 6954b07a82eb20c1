"""Runs one processor of one task: rows in, forwarded records out, depth first.

Owner: the task. `forward` passes a record through the steps downstream of the processor before it returns, as in Kafka Streams, so a store that
those steps write is up to date for the rest of `process`. After each row `TaskTime` calls timers and punctuation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from streamactors.errors import StreamError
from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.processors.context import ProcessorContext
from streamactors.windows.processors.definitions import Processor, ProcessorDefinition
from streamactors.windows.processors.key_value import KeyValues
from streamactors.windows.processors.punctuation import Scheduled
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.processors.timers import Timers
from streamactors.windows.record import Record, RecordContext

Forward = Callable[[Record], None]


class ProcessorOperator(Operator):
    """Runs one processor. `stores`: what `context.store` returns, by name. `expiring`: the processor's own stores that have a ttl."""

    def __init__(
        self,
        definition: ProcessorDefinition,
        env: TaskEnvironment,
        time: TaskTime,
        timers: Timers,
        stores: Mapping[str, Any],
        partition: int,
    ) -> None:
        super().__init__(definition.node, env)
        self._definition = definition
        self.time = time
        self.timers = timers
        own = [stores[each.name] for each in definition.stores]
        self._expiring = [store for store in own if isinstance(store, KeyValues) and store.expires]
        self.wall_ms = time.now_ms()
        self.record_context: RecordContext | None = None
        self._to_all: Forward | None = None
        self._to: Mapping[str, Forward] = {}
        self._row: Record | None = None
        self._open = False
        self._processor: Processor | None = None
        self._context = ProcessorContext(self, stores, partition)
        self._started = False
        time.processors.append(self)

    def _made(self) -> Processor:
        processor = self._definition.make()
        if not isinstance(processor, Processor):
            raise StreamError(f"{self.node}: the function returned {processor!r}, which is not a Processor")
        return processor

    def bind(self, to_all: Forward, to: Mapping[str, Forward]) -> None:
        """The steps downstream: all of them, and each by its name."""
        self._to_all, self._to = to_all, to

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        self.start()
        processor = self._processor
        assert processor is not None
        for row in rows:
            if type(row) is not Record:
                raise InvalidRecord(f"{self.node} was given {row!r}; a processor takes Record(key, value, timestamp)")
            self._expire()
            self._row = row
            self.record_context = row.context
            self.time.in_row = True
            try:
                self._call("process", row, row.key, partial(processor.process, row))
            finally:
                self.time.in_row = False
                self._row = self.record_context = None

    def start(self) -> None:
        """Call `init`, once, when the stores are restored."""
        if not self._started:
            self._started = True
            processor = self._processor = self._made()
            self._call("init", None, None, lambda: processor.init(self._context))

    def call_timers(self) -> None:
        """Call the timers that are due."""
        processor = self._processor
        if processor is not None:
            now = self.time.stream_ms
            self.timers.call_due(
                now, lambda key, at: self._call("on_timer", (key, at), key, partial(processor.on_timer, key, at))
            )

    def _expire(self) -> None:
        for store in self._expiring:
            store.expire(self._expired)

    def _expired(self, on_expire: Callable[[Any, Any], Any], key: Any, value: Any) -> None:
        self._call("on_expire", (key, value), key, lambda: self._forward_answer(on_expire(key, value)))

    def _forward_answer(self, answer: Any) -> None:
        if isinstance(answer, Record):
            self.forward(answer, None)
        elif isinstance(answer, list | tuple):
            for record in answer:
                self.forward(record, None)

    def _call(self, what: str, element: object, key: Any, call: Callable[[], None]) -> None:
        """Call the processor; an exception of its own names the method and the row. Errors of later steps pass unchanged."""
        self.wall_ms = self.time.now_ms()
        self._open = True
        try:
            call()
        except (OperatorFailed, InvalidRecord):
            raise
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self.env.settle(OperatorFailed(self.node, what, element, key, None, None, error))
        finally:
            self._open = False

    # ── what the context does ─────────────────────────────────────────────────────────────────────────────────────

    def forward(self, record: Any, to: str | None) -> None:
        """See ProcessorContext.forward."""
        if not self._open:
            raise StreamError(
                f"{self.node}: forward outside of init, process, on_timer and scheduled functions; no row is processed there"
            )
        if not isinstance(record, Record):
            raise InvalidRecord(f"{self.node} forwarded {record!r}; forward Record(key, value, timestamp)")
        if self._definition.keeps_key and self._row is not None and record.key != self._row.key:
            raise StreamError(
                f"{self.node}: process_values keeps the key {self._row.key!r}, and the record has {record.key!r}; use process(…) to change keys"
            )
        if record.context is None and self.record_context is not None:
            record = record.replace(context=self.record_context)
        if to is None:
            if self._to_all is not None:
                self._to_all(record)
            return
        target = self._to.get(to)
        if target is None:
            raise StreamError(
                f"{self.node}: there is no step {to!r} downstream of it; there are {sorted(self._to)}: give the step name={to!r}"
            )
        target(record)

    def schedule(self, every_ms: int, fn: Callable[[int], object], clock: str) -> Scheduled:
        """See ProcessorContext.schedule."""
        scheduled = Scheduled(
            every_ms, lambda now: self._call("the scheduled function", now, None, lambda: _ignored(fn(now)))
        )
        if clock == "wall":
            self.time.by_wall.add(scheduled, self.wall_ms + every_ms)
        elif self._definition.semantics == "strict" and self.time.in_row:
            now = max(0, self.time.stream_ms)
            self.time.by_stream.add(scheduled, (now // every_ms + 1) * every_ms)
        else:
            self.time.by_stream.add(scheduled, 0)
        return scheduled

    def close(self) -> None:
        """The task has ended."""
        if self._processor is not None:
            self._processor.close()


def _ignored(_: object) -> None:
    """A scheduled function's result has no meaning."""
