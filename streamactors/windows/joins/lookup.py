"""A stream joined with the answers of a function: a database, a service, a dictionary.

Owner: WindowTask. Each key of a list of rows is asked for once, all keys at the same time, and the rows continue in their order when the last
answer is there. So order, positions and exactly once are those of any other step. Answers are kept in a bounded cache of the
task. The cache is not state: a restart asks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from streamactors.codec import CodecError
from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.joins.asking import Asking, LookupAnswer
from streamactors.windows.joins.lookup_cache import LookupCache
from streamactors.windows.operators.operator import Ident, Operator, TaskEnvironment
from streamactors.windows.record import Record
from streamactors.windows.values import snapshot

_Asked: TypeAlias = tuple[Record, Any, "Ident | None", "Exception | None"]
"""A row, its key, the key's ident if the lookup must be asked for it, and the error of the row."""


class LookupJoin(Operator):
    """Emits joiner(value, answer). Inner: only where the answer is not None; left: with None, too.

    A row without value is dropped and counted; a row without key (or whose mapped key is None) too, but in a left join it gives
    joiner(value, None) and the lookup is not asked. A call that raises fails the rows of its key; the next list of rows asks again."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        asking: Asking,
        cache: LookupCache,
        joiner: Callable[[Any, Any], Any],
        now_ms: Callable[[], int],
        *,
        left: bool,
        key: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(node, env)
        self._asking = asking
        self._cache = cache
        self._joiner = joiner
        self._now_ms = now_ms
        self._left = left
        self._key = key
        self._ahead: dict[Ident, LookupAnswer] = {}

    def ask_ahead(self, rows: Sequence[Any]) -> None:
        """Ask for the keys of rows that are then processed one by one."""
        self._ahead = {}
        self._ahead = self._answers([self._asked(row) for row in rows if isinstance(row, Record)])

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        asked = [self._asked(row) for row in rows]
        answers = self._answers(asked)
        for row, key, ident, failure in asked:
            if isinstance(failure, OperatorFailed):
                self.env.settle(failure)
            elif failure is not None:
                raise failure
            elif row.value is None or (key is None and not self._left):
                self.env.metrics.dropped_null += 1
            else:
                answer, error = (None, None) if ident is None else answers[ident]
                if error is not None:
                    self.env.settle(OperatorFailed(self.node, "the lookup", row, key, None, None, error))
                elif answer is not None or self._left:
                    self._join(row, answer, out)

    def _asked(self, row: Record) -> _Asked:
        try:
            key = row.key if self._key is None else self._key(row)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            return row, None, None, OperatorFailed(self.node, "the key function", row, row.key, None, None, error)
        if key is None or row.value is None:
            return row, key, None, None
        try:
            return row, key, self.env.identity.of(key), None
        except CodecError as error:
            return row, key, None, InvalidRecord(f"{self.node}: key {key!r}: {error}")

    def _answers(self, asked: Sequence[_Asked]) -> dict[Ident, LookupAnswer]:
        """Return the answers for the keys of rows; those that are in no cache are asked for."""
        now_ms = self._now_ms()
        answers: dict[Ident, LookupAnswer] = {}
        missing: dict[Ident, Any] = {}
        for _, key, ident, _ in asked:
            if ident is None or ident in answers or ident in missing:
                continue
            cached = self._cache.get(ident, now_ms)
            if cached is not None:
                answers[ident] = (cached[0], None)
            elif ident in self._ahead:
                answers[ident] = self._ahead[ident]
            else:
                missing[ident] = snapshot(key)
        if missing:
            for ident, (answer, error) in zip(missing, self._asking.ask(list(missing.values())), strict=True):
                answers[ident] = (answer, error)
                if error is None:
                    self._cache.put(ident, answer, now_ms)
        return answers

    def _join(self, row: Record, answer: Any, out: list[Any]) -> None:
        try:
            result = self._joiner(row.value, snapshot(answer))
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self.env.settle(OperatorFailed(self.node, "the joiner", row, row.key, None, None, error))
            return
        out.append(Record(row.key, result, row.timestamp, row.context))

    def close(self) -> None:
        """The task ends."""
        self._asking.close()
