"""The objects in memory in front of a task's disk: two generations, of which the young one counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.windows.state.disk.hot import Hot
from streamactors.windows.state.stores import Form

LIMIT = 64  # the smallest number of objects that a store keeps


class Value:
    """An object of a store."""

    dirty = False
    logged = False

    def __init__(self, value: str) -> None:
        self.value = value


class EmptyDisk:
    rocks = None

    def get(self, store: str, key: bytes) -> bytes | None:
        return None

    def scan(self, *_: Any, **__: Any) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


def make_hot() -> Hot[Value]:
    disk: Any = EmptyDisk()
    return Hot(disk, "store", Form(lambda value: [value.value], Value, on_demand=True), lambda: 1)


def age(hot: Hot[Value]) -> None:
    """Put so many other objects that the young generation becomes the old one."""
    for number in range(LIMIT + hot.in_memory):
        hot.put(b"other-%d" % number, Value("other"))
    hot.rest()


def test_an_object_that_is_replaced_unread_stays_the_latest() -> None:
    # put -> the object gets old -> put without a get -> the next change of generations kept the older object, too, as the young one.
    hot = make_hot()
    hot.put(b"k", Value("old"))
    age(hot)
    hot.put(b"k", Value("new"))
    age(hot)
    found = hot.get(b"k")
    assert found is not None
    assert found.value == "new"
    assert [entry.value for key, entry in hot.scan() if key == b"k"] == ["new"]
