"""The stores of processors against plain models, in memory and on disk, across commits and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    REFUSED,
    KeyValueStore,
    SessionStore,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.changelog_settings import expiring, versioned
from streamactors.windows.state.disk.rocks import Memory
from streamactors.windows.state.reads import StoreRequest
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.stores import MemoryStores
from streamactors.windows.topology.nodes.processor_nodes import KINDS
from tests.windows.processors.kept_store import KEYS, TIMES, VALUES, Kept, both, by_bytes, carried_out, steps


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
        st.tuples(st.just("put"), KEYS, TIMES, st.integers(0, 2), VALUES),
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
                    kept,
                    step,
                    lambda k: list(k.store.find(key, first_end, last_start, reverse=reverse)),  # noqa: B023
                )
                assert found == [[(start, end, value) for end, start, value in expected]] * 2
            case _:
                carried_out(kept, step, lambda k: None)
        for each in kept:
            assert len(list(each.store.items())) == sum(end > newest - 15 for _, _, end in model)
            for one in {key for key, _, _ in model}:
                live = sorted((end, s) for k, s, end in model if k == one and end > newest - 15)
                assert [(end, start) for start, end, _ in each.store.find(one)] == live


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
        oldest = max(0, newest - 12)
        for one, versions in model.items():
            at = max((t for t in versions if t <= oldest), default=None)
            found = None if at is None else versions[at]
            for each in kept:
                seen = each.store.get(one, oldest)
                assert (None if seen is None else seen[0]) == found, "the history begins here"


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


def test_entries_come_in_ascending_order_unless_they_are_asked_for_backwards() -> None:
    sessions = Kept(SessionStore("s", 100)).store
    for start, end in ((0, 5), (2, 9), (1, 5)):
        sessions.put("k", start, end, "v")
    found = [(0, 5, "v"), (1, 5, "v"), (2, 9, "v")]
    assert list(sessions.find("k")) == found
    assert list(sessions.find("k", reverse=True)) == found[::-1]
    assert [key[1:] for key, _ in sessions.items()] == [each[:2] for each in found]
    windows = Kept(WindowStore("w", 100)).store
    for time in (3, 1, 2):
        windows.put("k", time, time)
    assert [time for time, _ in windows.range("k", 0, 9)] == [1, 2, 3]
    assert [time for time, _ in windows.range("k", 0, 9, reverse=True)] == [3, 2, 1]
    values = Kept(KeyValueStore("v")).store
    for key in "bca":
        values.put(key, 1)
    assert [key for key, _ in values.items()] == ["a", "b", "c"]
    assert [key for key, _ in values.items(reverse=True)] == ["c", "b", "a"]
    assert [key for key, _ in values.range("a", "c")] == ["a", "b", "c"]
    assert [key for key, _ in values.range("a", "c", reverse=True)] == ["c", "b", "a"]
    assert [key for key, _ in values.prefix("")] == ["a", "b", "c"]
    assert [key[0] for key, _ in windows.items()] == ["k"] * 3
    assert [value for _, value in windows.items()] == [1, 2, 3]
    assert [value for _, value in windows.items(reverse=True)] == [3, 2, 1]
    assert [key[1:] for key, _ in sessions.items(reverse=True)] == [each[:2] for each in found[::-1]]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_items_of_all_stores_have_numbers_by_value_and_before_other_keys(
    reverse: bool, tmp_path: Any, memory: Memory
) -> None:
    keys = ["a", 2, -1, 1.5, -2.5, 0, -3, "b"]
    wanted = [-3, -2.5, -1, 0, 1.5, 2, "a", "b"]
    places = {"window": WindowStore("window", 100), "session": SessionStore("session", 100)}
    for kind, definition in places.items():
        for each in both(definition, tmp_path / kind, memory):
            for key in keys:
                for time in (1, 2):
                    each.store.put(key, *((1, time) if kind == "window" else (time, time, 1)))
            each.restart()
            found = [where[:2] for where, _ in each.store.items(reverse=reverse)]
            assert found == [(key, time) for key in wanted for time in (1, 2)][:: -1 if reverse else 1]
