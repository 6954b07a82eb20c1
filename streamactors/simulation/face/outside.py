"""A store outside of the pipeline: a database, a bank, a mail server. It survives crashes, takes its time, and fails as faults decide.

Owner: the simulation of one run; instances call it. A call does what it does at one moment, and its caller hears of it later, or hears of a
failure: before the effect, or after it. What a check reads takes no time."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.errors import StreamActorsError
from streamactors.simulation.face.verdict import HOLDS, Keys, Verdict, some

if TYPE_CHECKING:
    from streamactors.simulation.face.parts import Parts

_NOTHING: Final = object()


class OutsideFailed(StreamActorsError, ConnectionError):
    """A call of a store outside failed. It may have been carried out."""


class Row(NamedTuple):
    """One row of a store: its key, its value, the instance that wrote it, and when in virtual ms."""

    key: Any
    value: Any
    instance: str
    at_ms: float


class Outside:
    """A store. `insert` adds a row each time, `upsert` puts one in the place of another; the `_async` twins are awaited."""

    def __init__(self, name: str, parts: Parts) -> None:
        self.name = name
        self._parts = parts
        self._rows: list[Row] = []
        self.written: list[Row] = []
        """Every row that was ever written, in the order of the calls."""
        self._by_key: dict[Any, Any] = {}
        self._ordinal = 0

    # --- calls of the pipeline ---

    def insert(self, key: Any, value: Any = None, *, record: Any = None) -> None:
        """Add a row, though one with this key may be there. Raises OutsideFailed. `record`: the record that it comes of, for the story."""
        self._call("insert", [(key, value)], record)

    def upsert(self, key: Any, value: Any = None, *, record: Any = None) -> None:
        """Write the row of a key; a second call has no second effect. Raises OutsideFailed."""
        self._call("upsert", [(key, value)], record)

    def upsert_all(self, rows: Mapping[Any, Any], *, record: Any = None) -> None:
        """Write several rows at one moment, as in a transaction of a database. Raises OutsideFailed."""
        self._call("upsert", list(rows.items()), record)

    def delete(self, key: Any, *, record: Any = None) -> None:
        """Remove the row of a key, if it is there. Raises OutsideFailed."""
        self._call("delete", [(key, None)], record)

    def lookup(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, as a call that takes time. Raises OutsideFailed."""
        self._call("lookup", [], None)
        return _own(self._by_key.get(key, default))

    async def insert_async(self, key: Any, value: Any = None, *, record: Any = None) -> None:
        """As `insert`, for coroutines."""
        await self._call_async("insert", [(key, value)], record)

    async def upsert_async(self, key: Any, value: Any = None, *, record: Any = None) -> None:
        """As `upsert`, for coroutines."""
        await self._call_async("upsert", [(key, value)], record)

    async def lookup_async(self, key: Any, default: Any = None) -> Any:
        """As `lookup`, for coroutines."""
        await self._call_async("lookup", [], None)
        return _own(self._by_key.get(key, default))

    def _call(self, call: str, rows: list[tuple[Any, Any]], record: Any) -> None:
        fate = self._fate(call)
        self._parts.world.sleep(fate.delay_ms)
        self._happen(fate, call, rows, record)

    async def _call_async(self, call: str, rows: list[tuple[Any, Any]], record: Any) -> None:
        fate = self._fate(call)
        await asyncio.sleep(fate.delay_ms / 1_000)
        self._happen(fate, call, rows, record)

    def _fate(self, call: str) -> Any:
        return self._parts.plan.fate(self.name, self._parts.world.instance(), call)

    def _happen(self, fate: Any, call: str, rows: list[tuple[Any, Any]], record: Any) -> None:
        if fate.fails_before:
            self._tell(call, rows, "failed before", record)
            raise OutsideFailed(f"{self.name}.{call}: the store did not answer, and did nothing")
        outcome = "failed after" if fate.fails_after else "done"
        self._arrives(call, rows, outcome, record)
        if fate.again_after_ms:
            world = self._parts.world
            world.later(
                fate.again_after_ms, lambda: self._arrives(call, rows, outcome, record), f"{call} arrives again"
            )
        elif fate.duplicated:
            self._arrives(call, rows, outcome, record)
        if rows:
            self._parts.plan.moment("effect", self._parts.world.instance())
        if fate.fails_after:
            raise OutsideFailed(f"{self.name}.{call}: the store did not answer; whether it did the work is not known")

    def _arrives(self, call: str, rows: list[tuple[Any, Any]], outcome: str, record: Any) -> None:
        self._apply(call, rows)
        self._tell(call, rows, outcome, record)

    def _apply(self, call: str, rows: list[tuple[Any, Any]]) -> None:
        world = self._parts.world
        for key, given in rows:
            value = _own(given)
            row = Row(key, value, world.instance(), world.now_ms())
            if call != "delete":
                self.written.append(row)
            if call == "insert":
                self._rows.append(row)
                self._by_key[key] = value
                continue
            if key in self._by_key:
                self._rows = [row for row in self._rows if row.key != key]
                del self._by_key[key]
            if call == "upsert":
                self._rows.append(row)
                self._by_key[key] = value

    def _tell(self, call: str, rows: list[tuple[Any, Any]], outcome: str, record: Any) -> None:
        for key, value in rows:
            self._ordinal += 1
            self._parts.world.event(
                "effect", store=self.name, call=call, key=key, value=value, ordinal=self._ordinal, outcome=outcome,
                record=self._parts.place_of(key, record),
            )  # fmt: skip

    # --- what checks read ---

    @property
    def rows(self) -> list[Row]:
        """The rows, in the order in which they were written."""
        return list(self._rows)

    @property
    def keys(self) -> Keys:
        """The keys that have a row."""
        return Keys(self._by_key)

    def __getitem__(self, key: Any) -> Any:
        return self._by_key[key]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, at once: for checks. A pipeline calls `lookup`."""
        return self._by_key.get(key, default)

    def __contains__(self, key: Any) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._rows)

    def unique(self, field: str | Callable[[Any], Any] | None = None) -> Verdict:
        """Return whether no two rows have the same key; or the same `field` of their values, or the same result of a function of the value."""
        return unique((_part(row, field) for row in self._rows), f"rows of {self.name}")

    def __repr__(self) -> str:
        return f"<Outside {self.name}: {len(self._rows)} rows>"


def _own(value: Any) -> Any:
    """What is sent to a store is not what the sender changes later."""
    return copy.deepcopy(value) if isinstance(value, dict | list | set | bytearray) else value


def unique(values: Iterable[Any], what: str) -> Verdict:
    """Return whether every value is there once."""
    twice = {value: count for value, count in Counter(values).items() if count > 1}
    if not twice:
        return HOLDS
    first = next(iter(twice))
    return Verdict(f"{twice[first]} {what} have {first!r}; more than once: {some(twice)}")


def _part(row: Row, field: str | Callable[[Any], Any] | None) -> Any:
    if field is None:
        return row.key
    if callable(field):
        return field(row.value)
    value = row.value[field] if isinstance(row.value, Mapping) else getattr(row.value, field, _NOTHING)
    if value is _NOTHING:
        raise StreamActorsError(
            f"unique({field!r}): the value {row.value!r} has no {field}; give a function of the value"
        )
    return value
