"""The stores in memory: rows by key and time, and entries in the order of their bytes, beside plain Python."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.windows.state.ordered_store import MemoryOrderedStore, after_prefix
from streamactors.windows.state.row_store import MemoryRowStore, StoredRow
from streamactors.windows.state.store_log import Change, NewestEntries

moments = st.integers(0, 8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), moments), max_size=30), moments, moments, moments)
def test_rows_of_a_key_come_by_time_and_then_by_arrival(
    added: list[tuple[str, int]], first: int, last: int, expired: int
) -> None:
    store = MemoryRowStore()
    for at, (key, time) in enumerate(added):
        store.add(key, StoredRow(key, time, at, at))
    model = sorted((time, at, key) for at, (key, time) in enumerate(added))
    for key in "ab":
        wanted = [at for time, at, of in model if of == key and first <= time <= last]
        assert [row.value for row in store.between(key, first, last)] == wanted
    gone = sorted(row.sequence for _, row in store.expire(expired))
    assert gone == sorted(at for time, at, _ in model if time < expired)
    left = [row.sequence for key in "ab" for row in store.between(key, 0, 8)]
    assert sorted(left) == sorted(at for time, at, _ in model if time >= expired)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=3)), max_size=30),
    st.none() | st.binary(max_size=3),
    st.none() | st.binary(max_size=3),
)
def test_a_scan_is_ordered_by_bytes(steps: list[tuple[bool, bytes]], low: bytes | None, high: bytes | None) -> None:
    store: MemoryOrderedStore[int] = MemoryOrderedStore()
    model: dict[bytes, int] = {}
    for at, (puts, key) in enumerate(steps):
        if puts:
            store.put(key, at)
            model[key] = at
        else:
            assert store.remove(key) == model.pop(key, None)
    wanted = sorted(
        item for item in model.items() if (low is None or low <= item[0]) and (high is None or item[0] < high)
    )
    assert list(store.scan(low, high)) == wanted
    assert list(store.scan(low, high, reverse=True)) == wanted[::-1]
    assert store.first() == (min(model.items()) if model else None)
    from_low = [item for item in model.items() if low is None or low <= item[0]]
    assert store.first(low) == (min(from_low) if from_low else None)
    assert len(store) == len(model)


@given(st.binary(max_size=3), st.binary(max_size=3))
def test_after_a_prefix_lies_what_does_not_begin_with_it(prefix: bytes, key: bytes) -> None:
    end = after_prefix(prefix)
    assert (prefix <= key and (end is None or key < end)) == key.startswith(prefix)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"1", b"2", None])), max_size=6),
        max_size=6,
    )
)
def test_the_newest_entries_of_a_changelog_are_those_of_its_keys_in_the_order_of_their_last_writes(
    batches: list[list[tuple[bytes, bytes | None]]],
) -> None:
    found, model = NewestEntries(), dict[bytes, bytes]()
    for batch in batches:
        found.add("s", [key for key, _ in batch], [value for _, value in batch])
        for key, value in batch:
            model.pop(key, None)
            if value is not None:
                model[key] = value
    assert list(found) == [Change("s", key, value) for key, value in model.items()]
    assert len(found) == len(model)
