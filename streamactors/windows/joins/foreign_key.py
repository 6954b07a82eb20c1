"""A table joined with another one by a key that its values name.

Owner: WindowTask; five operators, with two internal topics between them, as in Kafka Streams:

1. `Subscribe`, downstream of the left table: sends (foreign key, what to do, hash of the value, left key) to the right table's partition.
2. `ForeignSubscriptions`, there: keeps who subscribes to which right key, and answers with the right value.
3. `TellSubscribers`, downstream of the right table: answers all subscribers of a key that changed, by the bytes of their keys.
4. `Resolve`, downstream of the answers: joins if the hash is still that of the left table's value; else the answer is dropped, counted.
5. the table of the results (`tables/source.py`); in strict mode it forwards a deletion only of an existing entry."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b as _blake2b
from typing import Any, Final, NamedTuple

from streamactors.codec import CodecError
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.operator import Ident, Operator, TaskEnvironment, Update
from streamactors.windows.record import Record
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import Change, StoreLog, StoreReader, TaskIdentity, as_restored
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import snapshot

_LENGTH: Final = struct.Struct(">I")
DELETE_QUIETLY: Final = 0
DELETE_AND_ANSWER: Final = 1
ANSWER_ALWAYS: Final = 2
ANSWER_IF_THERE: Final = 3


_BYTES_OR_TEXT: Final = (str, bytes)
"""Types whose empty value has no bytes. Kafka Streams' answer ends with the bytes of the right value; no bytes there mean no value."""

Sends = tuple[tuple[Any, int], ...]
"""(foreign key, instruction) of each message that one update of the left table sends."""


class ForeignSubscription(NamedTuple):
    """The value of a row to the right side; its key is the foreign key."""

    instruction: int
    hash: bytes | None
    left_key: Any
    partition: int


class ForeignAnswer(NamedTuple):
    """The value of a row to the left side; its key is the left key. `partition`: of the left table."""

    hash: bytes | None
    value: Any
    partition: int


_subscription: Final[Callable[[tuple[Any, ...]], ForeignSubscription]] = partial(tuple.__new__, ForeignSubscription)
_answer: Final[Callable[[tuple[Any, ...]], ForeignAnswer]] = partial(tuple.__new__, ForeignAnswer)
"""Make the two of their fields, in half the time of the classes' own constructors."""


class ValueHashes:
    """The hash that distinguishes an answer from one to an older value; 16 bytes, None for None.

    Owner: one join of one task. It remembers the last value, because the answer to a row often comes before the next row."""

    def __init__(self, env: TaskEnvironment) -> None:
        self._bytes_of = env.serdes.value
        self._value: Any = None
        self._hash: bytes | None = None

    def of(self, value: Any) -> bytes | None:
        """Return the hash of a value of the left table."""
        if value is not self._value:
            self._hash = None if value is None else _blake2b(self._bytes_of(value), digest_size=16).digest()
            self._value = value
        return self._hash


class Subscribe(Operator):
    """`foreign_key(key, value)` names the right row of a left row."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        foreign_key: Callable[[Any, Any], Any],
        hashes: ValueHashes,
        *,
        left: bool,
        partition: int,
        skips_stale: bool,
    ) -> None:
        super().__init__(node, env)
        self._foreign_key = foreign_key
        self._hashes = hashes
        self._left = left
        self._partition = partition
        self._skips_stale = skips_stale

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        metrics, identify = self.env.metrics, self.env.identity.of
        for update in rows:
            key, new, old, final = update[1], update[4], update[5], update[8]
            if final is None and self._skips_stale:
                metrics.dropped_stale += 1
                continue
            if new is None and old is None:
                continue
            try:
                now = None if new is None else self._foreign_key(snapshot(key), snapshot(new))
                before = None if old is None else self._foreign_key(snapshot(key), old)
                if now is not None:
                    identify(
                        now
                    )  # or the step downstream of the internal topic would fail, which does not know the row
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.env.settle(OperatorFailed(self.node, "the foreign key", new, key, None, None, error))
                continue
            sends = self._sends_of_left(now, before) if self._left else self._sends_of_inner(now, before)
            if not sends:
                metrics.dropped_stale += 1
                continue
            try:
                value_hash = self._hashes.of(new)  # one hash for both messages of a changed foreign key
            except CodecError as error:
                self.env.settle(OperatorFailed(self.node, "the hash of the value", new, key, None, None, error))
                continue
            for right_key, instruction in sends:
                sent = _subscription((instruction, value_hash, key, self._partition))
                out.append(Record(right_key, sent, update[6], update[7]))

    def _sends_of_left(self, now: Any, before: Any) -> Sends:
        if before is not None and not self._same(now, before):
            return ((before, DELETE_QUIETLY), (now, ANSWER_ALWAYS))
        return ((now, ANSWER_ALWAYS),)

    def _sends_of_inner(self, now: Any, before: Any) -> Sends:
        if now is None:
            return () if before is None else ((before, DELETE_AND_ANSWER),)
        if before is None or self._same(now, before):
            return ((now, ANSWER_IF_THERE),)
        return ((before, DELETE_QUIETLY), (now, ANSWER_ALWAYS))

    def _same(self, now: Any, before: Any) -> bool:
        of = self.env.identity.of
        return now is not None and before is not None and of(now) == of(before)


class Subscriber:
    """A left row in the store of subscriptions."""

    __slots__ = ("dirty", "hash", "key", "logged", "partition")

    def __init__(self, key: Any, value_hash: bytes | None, partition: int) -> None:
        self.key = key
        self.hash = value_hash
        self.partition = partition
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        """The fields of its changelog entry."""
        return [self.key, self.hash, self.partition]


SUBSCRIBER_FORM: Final[Form[Subscriber]] = Form(
    Subscriber.fields, lambda fields: as_restored(Subscriber(*fields[1:])), on_demand=True
)


class ForeignSubscriptions(Operator):
    """Keeps the subscriptions, and answers each new one."""

    def __init__(self, node: str, store: str, env: TaskEnvironment, stores: Stores, right: Operator) -> None:
        super().__init__(node, env)
        self.store = store
        self._right = right
        self._subscribers = stores.grouped(store, SUBSCRIBER_FORM)
        self._log = StoreLog(store, node, "foreign key subscriptions", env.track_changes)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        ident_of, read = self.env.identity.of, self._right.read
        for row in rows:
            instruction, value_hash, left_key, partition = row.value
            time, found = row.timestamp, None
            if row.key is not None:
                ident = ident_of(row.key)
                group, member = _group(ident), key_bytes(ident_of(left_key))
                if instruction > DELETE_AND_ANSWER:
                    self._subscribe(group, member, left_key, value_hash, partition)
                else:
                    self._unsubscribe(group, member)
                    if instruction == DELETE_QUIETLY:
                        continue
                try:
                    found = read(ident, None, None)
                except OperatorFailed as failure:
                    if instruction != DELETE_AND_ANSWER:  # whose answer has no value of the right table
                        self.env.settle(failure.met_by(row, left_key))
                        continue
            elif instruction != ANSWER_ALWAYS:
                self.env.metrics.dropped_null += 1
                continue
            value = None
            if found is not None:
                value, found_time = found
                if found_time is not None and found_time > time:
                    time = found_time
            elif instruction == ANSWER_IF_THERE:
                continue
            if instruction == DELETE_AND_ANSWER:
                value = None
            out.append(Record(left_key, _answer((value_hash, value, partition)), time, row.context))

    def _subscribe(self, group: bytes, member: bytes, left_key: Any, value_hash: bytes | None, partition: int) -> None:
        subscribers = self._subscribers
        entry = subscribers.get(group, member)
        if entry is None:
            entry = Subscriber(snapshot(left_key), value_hash, partition)
        else:
            entry.hash, entry.partition = value_hash, partition
            if entry.dirty:
                return  # the next cut writes it
        subscribers.put(group, member, entry)
        self._log.touch((group, member), entry)

    def _unsubscribe(self, group: bytes, member: bytes) -> None:
        gone = self._subscribers.remove(group, member)
        if gone is not None:
            self._log.leave(group + member, gone)

    def of(self, ident: Ident) -> Sequence[Subscriber]:
        """Return the subscribers of a right key, by the bytes of their keys."""
        return self._subscribers.of(_group(ident))

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        touched = ((b"".join(where), entry) for where, entry in self._log.touched())
        return self._log.changes(identity, {}, ((where, [where, *entry.fields()]) for where, entry in touched))

    def restore(self, reader: StoreReader) -> None:
        if reader.state(self._log) is not None:
            for where, *fields in reader.entries():
                end = _LENGTH.size + _LENGTH.unpack_from(where)[0]
                self._subscribers.put(where[:end], where[end:], as_restored(Subscriber(*fields)))


def _group(ident: Ident) -> bytes:
    """Return what the subscriptions to a right key begin with: the length of the key, and the key."""
    key = key_bytes(ident)
    return _LENGTH.pack(len(key)) + key


class TellSubscribers(Operator):
    """Sends each change of the right table to its subscribers."""

    def __init__(
        self, node: str, env: TaskEnvironment, subscriptions: ForeignSubscriptions, *, kafka: bool, skips_stale: bool
    ) -> None:
        super().__init__(node, env)
        self._subscriptions = subscriptions
        self._kafka = kafka
        self._skips_stale = skips_stale

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        for ident, _, _, _, new, old, timestamp, context, final in rows:
            if final is None and self._skips_stale:
                self.env.metrics.dropped_stale += 1
                continue
            if new is None and old is None and not self._kafka:
                continue
            out.extend(
                Record(snapshot(each.key), _answer((each.hash, new, each.partition)), timestamp, context)
                for each in self._subscriptions.of(ident)
            )


class Resolve(Operator):
    """Joins an answer with the left row, if the row has not changed since it asked: `fn(left, right)`."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        table: Operator,
        fn: Callable[[Any, Any], Any],
        hashes: ValueHashes,
        *,
        left: bool,
        kafka: bool,
    ) -> None:
        super().__init__(node, env)
        self._table = table
        self._fn = fn
        self._hashes = hashes
        self._left = left
        self._kafka = kafka

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        env = self.env
        hash_of, read, ident_of = self._hashes.of, self._table.read, env.identity.of
        for row in rows:
            value_hash, right, _ = row.value
            if self._kafka and type(right) in _BYTES_OR_TEXT and not right:
                right = None
            try:
                found = read(ident_of(row.key), None, None)
            except OperatorFailed as failure:
                env.settle(failure.met_by(right, row.key))
                continue
            value = None if found is None else found[0]
            if hash_of(value) != value_hash:
                env.metrics.dropped_stale += 1
                continue
            result, time = None, row.timestamp
            if value is not None and (right is not None or self._left):
                try:
                    result = self._fn(value, right)
                except Exception as error:  # noqa: BLE001 - whatever user code raises
                    env.settle(OperatorFailed(self.node, "the joiner", value, row.key, None, None, error))
                    continue
            if not self._kafka and found is not None and found[1] is not None:
                time = max(time, found[1])
            out.append(Record(row.key, result, time, row.context))
