"""The stores of processors against plain models, in memory and on disk, across commits and restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    REFUSED,
    KeyValueStore,
    SessionStore,
    StoreDefinition,
    TaskIdentity,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.changelog_settings import expiring, versioned
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.reads import StoreRequest
from streamactors.windows.state.serdes import Serdes, default_bytes
from streamactors.windows.state.store_log import StoreReader
from streamactors.windows.state.stores import MemoryStores
from streamactors.windows.topology.nodes.processor_nodes import KINDS

IDENTITY = TaskIdentity("stores")


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(8 << 20)


class Kept:
    """A store that is committed and restored, in memory or on disk."""

    def __init__(self, definition: StoreDefinition, disk: TaskDisk | None = None) -> None:
        self._definition, self._disk = definition, disk
        self._entries: dict[bytes, bytes | None] = {}
        self.metrics = TaskMetrics()
        self.time = TaskTime(lambda: 0)
        self.store: Any = self._made()

    def _made(self) -> StateStore[Any]:
        env = TaskEnvironment(Serdes(), self.metrics, track_changes=True)
        stores: Any = MemoryStores()
        if self._disk is not None:
            stores = self._disk_stores = DiskStores(self._disk, lambda: 1)
        return KINDS[type(self._definition)](self._definition, "p", env, self.time, stores)

    def cut(self) -> None:
        changes = list(self.store.changes(IDENTITY))
        if self._disk is not None:
            self._disk_stores.take(changes)
            self._disk.commit()
            self._disk_stores.rest()
        for _, key, value in changes:
            self._entries.pop(key, None)
            if value is not None:
                self._entries[key] = value

    def restart(self) -> None:
        self.cut()
        self.store = self._made()
        reader = StoreReader(self._definition.name, IDENTITY)
        if self._disk is not None:
            reader = self._disk_stores.reader(self._definition.name, IDENTITY)
        else:
            for key, value in self._entries.items():
                reader.add(key, value)
        self.store.restore(reader)


def both(definition: StoreDefinition, path: Path, memory: Memory) -> list[Kept]:
    disk = TaskDisk(Rocks(path, memory), [definition.name])
    return [Kept(definition), Kept(definition, disk)]


KEYS = st.sampled_from(["", "a", "ab", "b", 3, b"\xff", "a\x00"])
TIMES = st.integers(0, 40)
VALUES = st.none() | st.integers(1, 9)
by_bytes = default_bytes


def steps(*operations: Any) -> Any:
    between = st.sampled_from([("cut",), ("restart",)])
    return st.lists(st.one_of(*operations, *operations, between), max_size=30)


def carried_out(kept: list[Kept], step: tuple[Any, ...], on_store: Callable[[Any], Any]) -> list[Any]:
    """Return what the step gives on each of the stores."""
    if step[0] in ("cut", "restart"):
        return [getattr(each, step[0])() for each in kept]
    return [on_store(each) for each in kept]


@settings(max_examples=40, deadline=None)
@given(
    history=steps(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("absent"), KEYS, VALUES),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("range"), st.none() | KEYS, st.none() | KEYS, st.booleans()),
        st.tuples(st.just("prefix"), KEYS, st.booleans()),
    )
)
def test_T_83_a_key_value_store(history: list[Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory) -> None:
    kept = both(KeyValueStore("s"), tmp_path_factory.mktemp("kv"), memory)
    model: dict[Any, Any] = {}
    for step in history:
        match step:
            case ("put", key, value):
                carried_out(kept, step, lambda k: k.store.put(key, value))  # noqa: B023
                model.pop(key, None)
                model.update({key: value} if value is not None else {})
            case ("absent", key, value):
                found = carried_out(kept, step, lambda k: k.store.put_if_absent(key, value))  # noqa: B023
                assert found == [model.get(key)] * 2
                if key not in model and value is not None:
                    model[key] = value
            case ("delete", key):
                assert carried_out(kept, step, lambda k: k.store.delete(key)) == [model.pop(key, None)] * 2  # noqa: B023
            case ("range", first, last, reverse):
                expected = [
                    (key, value)
                    for key, value in sorted(model.items(), key=lambda e: by_bytes(e[0]), reverse=reverse)
                    if (first is None or by_bytes(first) <= by_bytes(key))
                    and (last is None or by_bytes(key) <= by_bytes(last))
                ]
                found = carried_out(kept, step, lambda k: list(k.store.range(first, last, reverse=reverse)))
                assert found == [expected] * 2
            case ("prefix", prefix, reverse):
                expected = [
                    (key, value)
                    for key, value in sorted(model.items(), key=lambda e: by_bytes(e[0]), reverse=reverse)
                    if by_bytes(key).startswith(by_bytes(prefix))
                ]
                found = carried_out(kept, step, lambda k: list(k.store.prefix(prefix, reverse=reverse)))
                assert found == [expected] * 2
            case _:
                carried_out(kept, step, lambda k: None)
        for each in kept:
            assert {key: each.store.get(key) for key in model} == model
            assert len(list(each.store.items())) == len(model)


@pytest.mark.parametrize("touch", ["write", "read"])
@settings(max_examples=30, deadline=None)
@given(
    history=steps(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("time"), st.integers(1, 8)),
        st.tuples(st.just("expire")),
    )
)
def test_a_store_with_ttl_never_shows_what_has_expired_and_tells_of_it_once(
    touch: Any, history: list[Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    definition = KeyValueStore("s", ttl=10, on_expire=lambda key, value: None, touch=touch)
    kept = both(definition, tmp_path_factory.mktemp("ttl"), memory)
    model: dict[Any, tuple[Any, int]] = {}  # value, expires
    now = 0
    for step in history:
        match step:
            case ("put", key, value):
                carried_out(kept, step, lambda k: k.store.put(key, value))  # noqa: B023
                model.pop(key, None)
                if value is not None:
                    model[key] = value, now + 10
            case ("get", key):
                value, expires = model.get(key, (None, 0))
                lives = expires > now
                assert carried_out(kept, step, lambda k: k.store.get(key)) == [value if lives else None] * 2  # noqa: B023
                if lives and touch == "read":
                    model[key] = value, now + 10
            case ("time", by):
                now += by
                for each in kept:
                    each.time.stream_ms = now
            case ("expire",):
                expected = sorted((by_bytes(key), v) for key, (v, expires) in model.items() if expires <= now)
                for each in kept:
                    told: list[Any] = []
                    each.store.expire(lambda fn, key, value: told.append((by_bytes(key), value)))  # noqa: B023
                    assert sorted(told) == expected
                model = {key: entry for key, entry in model.items() if entry[1] > now}
            case _:
                carried_out(kept, step, lambda k: None)
        alive = sorted((by_bytes(key), value) for key, (value, expires) in model.items() if expires > now)
        for each in kept:
            assert [(by_bytes(key), value) for key, value in each.store.items()] == alive


def test_a_store_with_ttl_holds_one_expiry_for_a_key_however_often_it_is_written(
    tmp_path: Path, memory: Memory
) -> None:
    for at, each in enumerate(both(KeyValueStore("s", ttl=1_000), tmp_path, memory)):
        for now in range(900):
            each.time.stream_ms = now
            each.store.put(f"k{now % 3}", now)
            if now % 5 == 0 and not at:  # on disk, where the queue spills, a deletion may leave an item
                each.store.delete("k1")
        waiting = len(list(each.store._expiries.items()))
        assert waiting <= 3, "one for each key"


def test_the_queue_of_expiries_does_not_grow_with_deletions(tmp_path: Path, memory: Memory) -> None:
    for each, most in zip(both(KeyValueStore("s", ttl=10_000), tmp_path, memory), (1, 65), strict=True):
        for now in range(9_000):
            each.time.stream_ms = now
            each.store.put("k", now)
            each.store.delete("k")
        each.store.put("k", "last")
        assert len(list(each.store._expiries.items())) <= most
        each.time.stream_ms = 18_998
        each.store.expire(lambda *_: None)
        assert each.store.get("k") == "last"
        each.time.stream_ms = 18_999
        each.store.expire(lambda *_: None)
        assert each.store.get("k") is None


def test_entries_expire_by_the_time_of_their_last_write_and_on_expire_may_write_and_delete(
    tmp_path: Path, memory: Memory
) -> None:
    for each in both(KeyValueStore("s", ttl=10, on_expire=lambda key, value: None), tmp_path, memory):
        store, told = each.store, []
        for now, key in enumerate(["a", "b", "c", "d", "a", "e"]):
            each.time.stream_ms = now
            store.put(key, now)
        each.time.stream_ms = 20

        def on_expire(_: Any, key: Any, value: Any, store: Any = store, told: Any = told) -> None:
            told.append((key, value))
            if key == "b":  # while it is called: c is written again, d goes, b comes back
                store.put("c", "again")
                store.delete("d")
                store.put("b", "back")

        store.expire(on_expire)
        assert told == [("b", 1), ("a", 4), ("e", 5)]
        store.put("d", "new")
        each.time.stream_ms = 30
        store.expire(lambda _, key, value: told.append((key, value)))  # noqa: B023
        assert told[3:] == [("b", "back"), ("c", "again"), ("d", "new")]
        assert list(store.items()) == []


@pytest.mark.parametrize("duplicates", [False, True])
@settings(max_examples=30, deadline=None)
@given(
    history=steps(
        st.tuples(st.just("put"), KEYS, TIMES, VALUES),
        st.tuples(st.just("range"), KEYS, TIMES, TIMES, st.booleans()),
    )
)
def test_T_86_a_window_store_hides_what_is_behind_its_retention(
    duplicates: bool, history: list[Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    kept = both(WindowStore("s", 15, duplicates), tmp_path_factory.mktemp("window"), memory)
    model: list[tuple[Any, int, Any]] = []
    newest, dropped = -1, 0
    for step in history:
        match step:
            case ("put", key, time, value):
                carried_out(kept, step, lambda k: k.store.put(key, value, time))
                newest = max(newest, time)
                if time <= newest - 15:
                    dropped += 1
                    continue
                if not duplicates:
                    model = [each for each in model if each[:2] != (key, time)]
                if value is not None:
                    model.append((key, time, value))
            case ("range", key, first, last, reverse):
                expected = sorted(
                    [
                        (t, i, v)
                        for i, (k, t, v) in enumerate(model)
                        if k == key and first <= t <= last and t > newest - 15
                    ],
                    reverse=reverse,
                )
                found = carried_out(kept, step, lambda k: list(k.store.range(key, first, last, reverse=reverse)))
                assert found == [[(t, v) for t, _, v in expected]] * 2
                at_first = next((v for k, t, v in model if (k, t) == (key, first) and t > newest - 15), None)
                assert carried_out(kept, step, lambda k: k.store.get(key, first)) == [at_first] * 2
            case _:
                carried_out(kept, step, lambda k: None)
        shown = sorted((by_bytes(k), t, v) for k, t, v in model if t > newest - 15)
        for each in kept:
            assert sorted((by_bytes(k), t, v) for (k, t), v in each.store.items()) == shown
            assert each.metrics.dropped_late == dropped


@settings(max_examples=30, deadline=None)
@given(
    history=steps(
        st.tuples(st.just("put"), KEYS, TIMES, st.integers(0, 9), VALUES),
        st.tuples(st.just("find"), KEYS, TIMES, st.none() | TIMES, st.booleans()),
    )
)
def test_T_86_a_session_store_finds_sessions_by_end_and_start(
    history: list[Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    kept = both(SessionStore("s", 15), tmp_path_factory.mktemp("session"), memory)
    model: dict[tuple[Any, int, int], Any] = {}
    newest = -1
    for step in history:
        match step:
            case ("put", key, start, length, value):
                end = start + length
                carried_out(kept, step, lambda k: k.store.put(key, start, end, value))  # noqa: B023
                newest = max(newest, end)
                if end > newest - 15:
                    model.pop((key, start, end), None)
                    if value is not None:
                        model[key, start, end] = value
            case ("find", key, first_end, last_start, reverse):
                expected = sorted(
                    (end, start, value)
                    for (k, start, end), value in model.items()
                    if k == key and end >= max(first_end, newest - 14) and (last_start is None or start <= last_start)
                )
                expected = expected[::-1] if reverse else expected
                found = carried_out(
                    kept, step, lambda k: list(k.store.find(key, first_end, last_start, reverse=reverse))
                )
                assert found == [[(start, end, value) for end, start, value in expected]] * 2
            case _:
                carried_out(kept, step, lambda k: None)
        for each in kept:
            assert len(list(each.store.items())) == sum(end > newest - 15 for _, _, end in model)


@settings(max_examples=40, deadline=None)
@given(
    history=steps(
        st.tuples(st.just("put"), KEYS, TIMES, VALUES),
        st.tuples(st.just("get"), KEYS, st.none() | TIMES),
    )
)
def test_T_87_a_versioned_store_knows_the_version_of_each_time_within_its_history(
    history: list[Any], tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    kept = both(VersionedStore("s", 12), tmp_path_factory.mktemp("versioned"), memory)
    model: dict[Any, dict[int, Any]] = {}
    newest = -1
    for step in history:
        match step:
            case ("put", key, time, value):
                versions = model.setdefault(key, {})
                if time < newest - 12:
                    expected: Any = REFUSED
                else:
                    newest = max(newest, time)
                    versions[time] = value
                    expected = min((at for at in versions if at > time), default=None)
                assert carried_out(kept, step, lambda k: k.store.put(key, value, time)) == [expected] * 2
            case ("get", key, as_of):
                versions = model.get(key, {})
                at = max((t for t in versions if as_of is None or t <= as_of), default=None)
                after = None if at is None else min((t for t in versions if t > at), default=None)
                expected = None
                if at is not None and versions[at] is not None and not (after is not None and as_of < newest - 12):
                    expected = (versions[at], at, after)
                assert carried_out(kept, step, lambda k: k.store.get(key, as_of)) == [expected] * 2
            case _:
                carried_out(kept, step, lambda k: None)


def test_keys_that_are_none_are_refused_with_the_name_of_the_store() -> None:
    with pytest.raises(ValueError, match="store s: a key is None"):
        Kept(KeyValueStore("s")).store.put(None, 1)


FILLED: dict[type, Callable[[Any, int], object]] = {
    WindowStore: lambda store, time: store.put("k", 1, time),
    SessionStore: lambda store, time: store.put("k", time, time, 1),
    VersionedStore: lambda store, time: store.put("k", 1, time),
}


@pytest.mark.parametrize("definition", [WindowStore("s", 12), SessionStore("s", 12), VersionedStore("s", 12)])
def test_what_has_expired_leaves_the_store_and_its_changelog(definition: Any) -> None:
    kept = Kept(definition)
    bound = 12 + 12 // 2 + 1  # windows and sessions are swept whenever half a retention has passed
    for time in range(100):
        FILLED[type(definition)](kept.store, time)
        assert kept.store.approximate_count() <= bound
        kept.cut()
        assert len(kept._entries) <= bound + 1, "and the entry about the store itself"
    assert kept.store.approximate_count() >= 12


def test_a_version_is_kept_while_it_is_valid_within_the_history() -> None:
    kept = Kept(VersionedStore("s", 12))
    for time in range(41):
        kept.store.put("k", time, time)
    assert kept.store.approximate_count() == 13, "the versions of 28 to 40: that of 27 has ended at 28"
    assert kept.store.get("k", 28) == (28, 28, 29)


def test_a_deletion_before_the_history_deletes_nothing_and_returns_nothing() -> None:
    kept = Kept(VersionedStore("s", 12))
    kept.store.put("a", 1, 0)
    kept.store.put("b", 1, 13)
    assert kept.store.delete("a", 0) is None
    assert kept.store.get("a") == (1, 0, None)
    assert kept.store.delete("a", 1) == (1, 0, None)
    assert kept.store.get("a") is None


def test_a_reader_from_outside_sees_the_newest_version_of_each_key_that_is_not_deleted() -> None:
    kept = Kept(VersionedStore("s", 12))
    for key, value, time in [("a", 1, 1), ("b", 2, 1), ("a", None, 2), ("b", 3, 4), ("c", 5, 5)]:
        kept.store.put(key, value, time)
    assert [(each.key, each.value) for each in kept.store.entries(StoreRequest("range"))] == [("b", 3), ("c", 5)]


EVERY_STORE = [KeyValueStore("s"), WindowStore("s", 12), SessionStore("s", 12), VersionedStore("s", 12)]
WRITTEN: dict[type, Callable[[Any, Any], object]] = {
    KeyValueStore: lambda store, value: store.put("k", value),
    WindowStore: lambda store, value: store.put("k", value, 5),
    SessionStore: lambda store, value: store.put("k", 0, 5, value),
    VersionedStore: lambda store, value: store.put("k", value, 5),
}


@pytest.mark.parametrize("definition", EVERY_STORE)
def test_an_entry_that_was_written_twice_and_removed_between_two_commits_does_not_come_back(definition: Any) -> None:
    kept = Kept(definition)
    for values in ((1, 2, None), (3,), (4, 5, None)):
        for value in values:
            WRITTEN[type(definition)](kept.store, value)
        kept.cut()
        kept.restart()
        assert [entry.value for entry in kept.store.entries(StoreRequest("s"))] == [values[-1]] * (
            values[-1] is not None
        )


@pytest.mark.parametrize("definition", EVERY_STORE)
def test_the_changelog_of_a_store_that_hides_old_entries_deletes_them_too(definition: Any) -> None:
    env = TaskEnvironment(Serdes(), TaskMetrics(), track_changes=True)
    KINDS[type(definition)](definition, "p", env, TaskTime(lambda: 0), MemoryStores())
    wanted = {KeyValueStore: {}, VersionedStore: {"s": versioned(12)}}.get(type(definition), {"s": expiring(12)})
    assert env.changelog_settings == wanted


def test_a_session_may_begin_at_zero_and_one_with_impossible_times_is_dropped_and_counted() -> None:
    kept = Kept(SessionStore("s", 12))
    kept.store.put("a", 0, 0, 1)
    assert kept.store.get("a", 0, 0) == 1
    for start, end in ((-1, 3), (5, 4)):
        kept.store.put("a", start, end, 2)
    assert kept.metrics.dropped_late == 2
    assert list(kept.store.find("a")) == [(0, 0, 1)]
