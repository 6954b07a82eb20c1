"""The grouped store in memory is the ordered store, read by groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.windows.state.grouped_store import GroupsInOrder, MemoryGroupedStore
from streamactors.windows.state.ordered_store import MemoryOrderedStore

GROUPS = st.sampled_from([b"\x01a", b"\x01b", b"\x02ab", b"\x01\xff"])
MEMBERS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "remove", "get", "of"]), GROUPS, MEMBERS), max_size=60)


@given(steps=STEPS)
def test_groups_in_memory_give_what_the_ordered_store_gives(steps: list[tuple[str, bytes, bytes]]) -> None:
    memory: MemoryGroupedStore[int] = MemoryGroupedStore()
    ordered: GroupsInOrder[int] = GroupsInOrder(MemoryOrderedStore())
    for number, (step, group, member) in enumerate(steps):
        for store in (memory, ordered):
            if step == "put":
                store.put(group, member, number)
        if step == "remove":
            assert memory.remove(group, member) == ordered.remove(group, member)
        elif step == "get":
            assert memory.get(group, member) == ordered.get(group, member)
        else:
            assert list(memory.of(group)) == list(ordered.of(group))


def test_a_group_is_read_by_the_bytes_of_its_members_whatever_their_arrival() -> None:
    store: MemoryGroupedStore[str] = MemoryGroupedStore()
    for member in (b"c", b"a", b"b"):
        store.put(b"g", member, member.decode())
    read = store.of(b"g")
    store.remove(b"g", b"a")
    assert (list(read), list(store.of(b"g"))) == (["a", "b", "c"], ["b", "c"])
