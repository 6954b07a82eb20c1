"""The key-value store of processors against a dict, with TTL and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows import (
    KeyValueStore,
)
from streamactors.windows.state.disk.rocks import Memory
from tests.windows.processors.kept_store import KEYS, VALUES, both, by_bytes, carried_out, steps

NUMBERS = st.sampled_from([-(1 << 63), -256, -2, -1, 0, 1, 2, 255, (1 << 63) - 1]) | st.sampled_from(
    [float("-inf"), -256.5, -1.5, -0.0, 0.5, 1.0, 1e300, float("inf")]
)


def in_python(key: Any) -> tuple[int, Any, bytes]:
    """Numbers by value, then other keys by their bytes."""
    return (0, key, by_bytes(key)) if isinstance(key, int | float) else (1, by_bytes(key), b"")


def not_below(key: Any, bound: Any) -> bool:
    """Numbers are compared with numbers, other keys with other keys; None is no bound."""
    if key is None or bound is None:
        return True
    key, bound = in_python(key), in_python(bound)
    return bool(key[0] == bound[0] and key[1] >= bound[1])


@settings(max_examples=60, deadline=None)
@given(
    puts=st.lists(
        st.tuples(st.just("put"), NUMBERS | KEYS, st.integers(1, 9)) | st.sampled_from([("cut",), ("restart",)]),
        max_size=12,
    ),
    first=st.none() | NUMBERS,
    last=st.none() | NUMBERS,
    reverse=st.booleans(),
)
def test_a_range_of_numbers_goes_by_value(
    puts: list[Any], first: Any, last: Any, reverse: bool, tmp_path_factory: pytest.TempPathFactory, memory: Memory
) -> None:
    # range(-1, 1) was empty: the bytes of -1 lie behind those of 1. range(-2.0, -1.0) had the wrong end
    kept = both(KeyValueStore("s"), tmp_path_factory.mktemp("numbers"), memory)
    model: dict[bytes, tuple[Any, Any]] = {}
    for step in puts:
        carried_out(kept, step, lambda k: k.store.put(*step[1:]))  # noqa: B023
        if step[0] == "put":
            model[by_bytes(step[1])] = step[1:]
    expected = sorted(model.values(), key=lambda entry: in_python(entry[0]), reverse=reverse)
    assert [repr(list(each.store.items(reverse=reverse))) for each in kept] == [repr(expected)] * 2
    if first is not None or last is not None:
        expected = [
            (k, v) for k, v in expected if isinstance(k, int | float) and not_below(k, first) and not_below(last, k)
        ]
    for each in kept:
        assert repr(list(each.store.range(first, last, reverse=reverse))) == repr(expected)


def test_nan_is_the_last_number_and_lies_between_itself_and_no_bound(tmp_path: Path, memory: Memory) -> None:
    nan = float("nan")
    for each in both(KeyValueStore("s"), tmp_path, memory):
        for key in (nan, 1, float("inf"), -1.5, "a"):
            each.store.put(key, 1)
        assert repr([key for key, _ in each.store.items()]) == "[-1.5, 1, inf, nan, 'a']"
        assert repr([key for key, _ in each.store.range(2)]) == "[inf, nan]"
        assert repr([key for key, _ in each.store.range(2, 3)]) == "[]"
        assert repr([key for key, _ in each.store.range(nan)]) == "[nan]"


def test_a_bound_that_no_float_equals_is_exact(tmp_path: Path, memory: Memory) -> None:
    """The bound became the nearest float: a range from 2**53 + 1 had the key 2.0**53, and a bound beyond all floats raised OverflowError."""
    near, far = 2**53 + 1, 10**400
    for each in both(KeyValueStore("s"), tmp_path, memory):
        for key in (2.0**53, near, 2.0**53 + 2, -(2.0**53), -(2.0**53) - 2, float("inf"), float("-inf")):
            each.store.put(key, 1)
        numbers = [key for key, _ in each.store.items()]
        for first in (near, -near, far, -far):
            assert [key for key, _ in each.store.range(first)] == [key for key in numbers if key >= first]
            assert [key for key, _ in each.store.range(None, first)] == [key for key in numbers if key <= first]


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
                    for key, value in sorted(model.items(), key=lambda e: in_python(e[0]), reverse=reverse)
                    if not_below(key, first) and not_below(last, key)
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
