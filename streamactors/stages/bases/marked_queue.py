"""MarkedQueue: the elements a stage keeps, in order, with the marks between them.

When elements are dropped their marks stay: an element dropped on purpose is done, so a mark passes as soon as the elements left before it
have passed. Marks next to each other are merged, so a queue has at most one position mark per element.

Owner: the stage that made it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.engine.marks.marks import Mark, merge_newer


class MarkedQueue:
    """Chunks (lists) and marks; `size` counts the elements."""

    __slots__ = ("_items", "size")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, chunk: list[Any]) -> None:
        """Append elements; the list must not be changed afterwards."""
        if chunk:
            self.size += len(chunk)
            self._items.append(chunk)

    def put_mark(self, mark: Mark) -> None:
        """Append a mark."""
        items = self._items
        if isinstance(mark, dict):
            if items and isinstance(items[-1], dict):
                merge_newer(items[-1], mark)
                return
            mark = mark.copy()
        items.append(mark)

    def take(self, n: int) -> list[Any]:
        """Remove up to n elements from the front and return them; never beyond a mark, [] when a mark is first."""
        items = self._items
        if n <= 0 or not items or type(items[0]) is not list:
            return []
        chunk: list[Any] = items.popleft()
        if len(chunk) > n:
            items.appendleft(chunk[n:])
            chunk = chunk[:n]
        self.size -= len(chunk)
        return chunk

    def put_back(self, rest: list[Any]) -> None:
        """Give back the last elements of the chunk that was taken last."""
        self._items.appendleft(rest)
        self.size += len(rest)

    def marks_in_front(self) -> list[Mark]:
        """Remove the marks before the first element and return them."""
        items = self._items
        marks: list[Mark] = []
        while items and type(items[0]) is not list:
            marks.append(items.popleft())
        return marks

    def push_out(self, asked: int, push: Callable[[list[Any]], None], mark: Callable[[Mark], None]) -> int:
        """Push up to `asked` elements and every mark that is then in front; return the number of elements pushed."""
        gone = 0
        items = self._items
        while items:
            if type(items[0]) is not list:
                mark(items.popleft())
                continue
            chunk = self.take(asked - gone)
            if not chunk:
                break
            gone += len(chunk)
            push(chunk)
        return gone

    # ── dropping ──────────────────────────────────────────────────────────────────────────────────────────────────

    def drop_head(self, n: int) -> None:
        """Drop the n oldest elements."""
        marks: list[Mark] = []
        items = self._items
        while n > 0 and self.size:
            marks += self.marks_in_front()
            n -= len(self.take(n))
        marks += self.marks_in_front()
        for mark in reversed(marks):
            items.appendleft(mark)
        self._merge_front(len(marks))

    def _merge_front(self, n: int) -> None:
        """Merge position marks among the first n items."""
        items = self._items
        marks = [items.popleft() for _ in range(n)]
        merged: list[Mark] = []
        for mark in marks:
            if merged and isinstance(mark, dict) and isinstance(merged[-1], dict):
                merge_newer(merged[-1], mark)
            else:
                merged.append(mark)
        items.extendleft(reversed(merged))

    def drop_tail(self, n: int) -> None:
        """Drop the n youngest elements; the marks after them stay."""
        items = self._items
        after: list[Mark] = []  # youngest first
        while n > 0 and self.size:
            last = items.pop()
            if type(last) is not list:
                after.append(last)
                continue
            if len(last) > n:
                items.append(last[:-n])
                self.size -= n
                break
            n -= len(last)
            self.size -= len(last)
        for mark in reversed(after):
            self.put_mark(mark)

    def clear(self) -> None:
        """Drop every element; the marks stay."""
        self.drop_head(self.size)
