"""The records that groups of the newer kinds keep in `__consumer_offsets`: one encoding for all kinds.

Keys are classic: the group's id, and for some kinds of records a name, as a member's id; the version of a key says what the value is. Values have
version 0 and are flexible. A null value is a tombstone. Owner: the record modules of the kinds of groups.
Source: KIP-848, KIP-932, KIP-1071; Apache Kafka's ConsumerGroup*, ShareGroup* and StreamsGroup* messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from streamactors.broker.coordinator.coordinator_log import KeyValue
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.protocol.record_schema import INT8, TEXT, CorruptRecord, Form, Versioned, WireType, structure


class _GroupKey(NamedTuple):
    group_id: Annotated[str, TEXT]


class _NamedKey(NamedTuple):
    group_id: Annotated[str, TEXT]
    name: Annotated[str, TEXT]


class StoredRecords:
    """Encodes and decodes the records of one kind of group. `of_group`, `of_name`: key version -> class of the value."""

    def __init__(self, whose: str, of_group: Mapping[int, type], of_name: Mapping[int, type]) -> None:
        self._of_name = frozenset(of_name)
        self._keys: dict[int, Versioned[Any]] = {
            kind: Versioned(f"{whose}'s key", structure(_GroupKey), highest=kind) for kind in of_group
        }
        self._keys |= {
            kind: Versioned(f"a key of {whose}'s member", structure(_NamedKey), highest=kind) for kind in of_name
        }
        self._values: dict[int, Versioned[Any]] = {
            kind: Versioned(f"{whose}'s value with key version {kind}", structure(made), highest=0, flexible_since=0)
            for kind, made in (*of_group.items(), *of_name.items())
        }

    def encode(self, kind: int, group_id: str, name: str, value: Any) -> KeyValue:
        """Return the key and the value of a record; the value None is a tombstone."""
        key = _NamedKey(group_id, name) if kind in self._of_name else _GroupKey(group_id)
        return self._keys[kind].encode(key, kind), None if value is None else self._values[kind].encode(value, 0)

    def decode(self, kind: int, key: bytes, value: bytes | None) -> tuple[str, str, Any]:
        """Return the group's id, the name or "", and the value or None. Raises CorruptRecord."""
        decoded: Any = self._keys[kind].decode(key)
        name = decoded.name if kind in self._of_name else ""
        made = None if value is None else self._values[kind].decode(value, decoded.group_id)
        return decoded.group_id, name, made


def nullable(made: WireType[Any], *, absent: int) -> WireType[Any]:
    """Return the type of a structure that may be null: a byte says whether it is there, 1, or not, `absent`."""

    def write(out: bytearray, value: Any, form: Form) -> None:
        INT8.write(out, absent if value is None else 1, form)
        if value is not None:
            made.write(out, value, form)

    def read(data: bytes, at: int, form: Form) -> tuple[Any, int]:
        there, at = INT8.read(data, at, form)
        return made.read(data, at, form) if there > 0 else (None, at)

    return WireType(write, read)


class StoredRecord(Protocol):
    """A decoded record; `value` None is a tombstone."""

    @property
    def group_id(self) -> str: ...
    @property
    def value(self) -> object | None: ...


R = TypeVar("R", bound=StoredRecord)
G = TypeVar("G", bound=CoordinatedGroup)


def fold_into(
    groups: dict[str, CoordinatedGroup],
    record: R,
    made: Callable[[str], G],
    fold: Callable[[G, Sequence[R]], G | None],
    kind: type[G],
    replaces: tuple[type[CoordinatedGroup], ...] = (),
) -> None:
    """Fold one record into the map of groups. The first record of a group makes it, also in place of one of the kinds `replaces`; a tombstone of a
    group that has another kind by now changes nothing. Raises CorruptRecord for a value whose group has another kind."""
    before = groups.get(record.group_id)
    if not isinstance(before, kind):
        if record.value is None:
            return
        if before is not None and not isinstance(before, replaces):
            raise CorruptRecord(f"group {record.group_id!r} is a {before.group_type.value} group already")
        before = made(record.group_id)
    after = fold(before, (record,))
    if after is None:
        del groups[record.group_id]
    else:
        groups[record.group_id] = after
