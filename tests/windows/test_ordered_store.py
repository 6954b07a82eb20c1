"""The ordered store in memory against a sorted dict."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from streamactors.windows.state.ordered_store import MemoryOrderedStore, after_prefix

KEYS = st.binary(max_size=2)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), KEYS, st.integers(1, 9)),
            st.tuples(st.just("remove"), KEYS, st.none()),
            st.tuples(st.just("scan"), st.none() | KEYS, st.none() | KEYS),
        ),
        max_size=60,
    )
)
def test_a_scan_gives_what_a_sorted_dict_gives(steps: list[tuple[str, bytes, object]]) -> None:
    store: MemoryOrderedStore[object] = MemoryOrderedStore()
    model: dict[bytes, object] = {}
    for kind, key, what in steps:
        if kind == "put":
            store.put(key, what)
            model[key] = what
        elif kind == "remove":
            assert store.remove(key) == model.pop(key, None)
        else:
            high: bytes | None = what  # type: ignore[assignment]
            expected = [
                (k, v) for k, v in sorted(model.items()) if (key is None or key <= k) and (high is None or k < high)
            ]
            assert list(store.scan(key, high)) == expected
            assert list(store.scan(key, high, reverse=True)) == expected[::-1]
            assert store.first() == min(model.items(), default=None)
            assert store.first(key) == min(((k, v) for k, v in model.items() if key is None or k >= key), default=None)
        assert len(store) == len(model)


def test_many_keys_in_any_order() -> None:
    store: MemoryOrderedStore[int] = MemoryOrderedStore()
    numbers = list(range(12_000))
    random.Random(1).shuffle(numbers)
    for n in numbers:
        store.put(n.to_bytes(4, "big"), n)
        if n % 500 == 0:
            assert store.first() is not None
    for n in numbers[::3]:
        store.remove(n.to_bytes(4, "big"))
    left = sorted(set(numbers) - set(numbers[::3]))
    assert [n for _, n in store.scan()] == left
    assert [n for _, n in store.scan((100).to_bytes(4, "big"), (200).to_bytes(4, "big"))] == [
        n for n in left if 100 <= n < 200
    ]


def test_the_bytes_behind_a_prefix() -> None:
    assert after_prefix(b"a\xff") == b"b"
    assert after_prefix(b"\xff") is None
    assert after_prefix(b"") is None
