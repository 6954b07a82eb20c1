"""group_by: a substream per key."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.errors import BuildError, TooManySubstreams
from streamactors.stages.checks import positive
from streamactors.stages.substreams.starvation import STARVED_MS, waits_for_elements
from streamactors.stages.substreams.substream import Full, Substream
from streamactors.stages.substreams.substreams import Substreams, SubstreamsLogic

WhenFull: TypeAlias = Literal["fail", "backpressure", "evict_idle"]
"""What group_by does with an element that needs one substream too many."""

WHEN_FULL: Final = ("fail", "backpressure", "evict_idle")


class GroupBy(Substreams):
    """The stage of `Source.group_by`."""

    def __init__(
        self, fn: Callable[[Any], Any], max_substreams: int, when_full: WhenFull = "fail", recreate: bool = False
    ) -> None:
        super().__init__(fn)
        self.max_substreams = positive("group_by", "max_substreams", max_substreams)
        if when_full not in WHEN_FULL:
            raise BuildError(f"group_by: when_full is one of {', '.join(WHEN_FULL)}, got {when_full!r}")
        self.when_full = when_full
        self.recreate = recreate


@logic_of(GroupBy)
class _GroupByLogic(SubstreamsLogic):
    def __init__(self, stage: GroupBy) -> None:
        super().__init__(stage)
        self._keyed: dict[Any, Substream | None] = {}  # None: closed, and its elements are dropped
        self._again: deque[Substream] = deque()  # closed with elements pending; each waits until its key may open again
        self._key: tuple[Any, ...] | None = None  # of the element that waits for a substream
        self._by_use: OrderedDict[Substream, None] | None = None  # evict_idle: open ones, the one silent longest first
        self._one_by_one: dict[Substream, None] = {}  # with recreate: got an element since the island was idle last
        self._look_for_starvation = False
        self._moved = (0, 0)
        if stage.when_full == "evict_idle":
            self._by_use = OrderedDict()
            self.sort = self._sort_by_use  # type: ignore[method-assign]

    def sort(self, feed: Iterator[Any]) -> None:
        fn, keyed, dirty = self.stage.fn, self._keyed, self._dirty
        if self._key is not None:
            self._put_waiting(next(feed))
        for element in feed:
            key = fn(element)
            sub = keyed[key] if key in keyed else self._open_for(key)
            if sub is not None:
                fresh = sub.fresh
                if not fresh:
                    dirty[sub] = None
                fresh.append(element)

    def _sort_by_use(self, feed: Iterator[Any]) -> None:
        fn, keyed, dirty, by_use = self.stage.fn, self._keyed, self._dirty, self._by_use
        assert by_use is not None
        if self._key is not None:
            self._put_waiting(next(feed))
        for element in feed:
            key = fn(element)
            sub = keyed[key] if key in keyed else self._open_for(key)
            if sub is not None:
                by_use.move_to_end(sub)
                if not sub.fresh:
                    dirty[sub] = None
                sub.fresh.append(element)

    def _put_waiting(self, element: Any) -> None:
        """Put an element whose key is known, because it had to wait for a substream. Raises Full again."""
        assert self._key is not None
        (key,), self._key = self._key, None
        sub = self._keyed[key] if key in self._keyed else self._open_for(key)
        if sub is not None:
            if not sub.fresh:
                self._dirty[sub] = None
            sub.fresh.append(element)

    def started(self, into: Connection) -> None:
        if self.stage.recreate:
            into.keep_left()

    def _push(self, sub: Substream, into: Connection, n: int) -> int:
        if not (n and into.asked and self.stage.recreate):
            return super()._push(sub, into, n)
        # The flow may end at any element, and what its stages have taken is lost: it gets the next one when it is done with this one.
        waits = sub in self._one_by_one
        if waits or n > 1:
            self._stuck.add(sub)
        if waits:
            return 0
        if not self._one_by_one:
            self.call_when_idle(self._hand_over_next)
        self._one_by_one[sub] = None
        return super()._push(sub, into, 1)

    def _hand_over_next(self) -> None:
        subs, self._one_by_one = self._one_by_one, {}
        for sub in subs:
            self._hand_over(sub)
        self._take_in()

    def _open_for(self, key: Any) -> Substream:
        """Begin the substream of a new key. Raises Full or TooManySubstreams."""
        if self._is_full():
            if self.stage.when_full == "fail":
                raise TooManySubstreams(
                    f"group_by: key {key!r} needs more than max_substreams={self.stage.max_substreams} substreams; raise "
                    'max_substreams, or set when_full="backpressure" or "evict_idle"'
                )
            if self._by_use is not None and len(self._by_use) == len(self._running):  # none is ending
                idlest = next(iter(self._by_use))
                del self._keyed[idlest.key]
                self.end(idlest)
            self._key = (key,)
            raise Full
        sub = self._keyed[key] = self.open(key)
        if self._by_use is not None:
            self._by_use[sub] = None
        return sub

    def _is_full(self) -> bool:
        stage = self.stage
        used = len(self._keyed) if stage.when_full == "fail" else len(self._running)
        return bool(stage.max_substreams <= used)

    def may_fail(self) -> bool:
        if self.stage.breadth is None:
            return super().may_fail()
        return not (self._stuck or self._full) and self._room() > 0

    def _take_in(self) -> None:
        super()._take_in()
        if (self._full or self._room() <= 0) and not self._look_for_starvation:
            self._look_for_starvation = True
            self.call_when_idle(self._look_whether_starved)

    # ── starvation ────────────────────────────────────────────────────────────────────────────────────────────────

    def _starved(self) -> bool:
        """True if the next element waits for a substream, and those that are read wait for elements."""
        if not self._full and self._room() > 0 and not self._again:
            return False
        if self._upstream_done or self.fails_later is not None or len(self._stuck) > len(self._again):
            return False
        return all(waits_for_elements(sub) for sub in self._running if sub not in self._unread)

    def _look_whether_starved(self) -> None:
        self._look_for_starvation = False
        moved = self._movement()
        if self._starved() and not (self.is_timer_active("starved") and moved == self._moved):
            self._moved = moved
            self.schedule_once("starved", STARVED_MS)

    def _movement(self) -> tuple[int, int]:
        return self.outlets[0].elements, self._held

    def on_timer(self, key: object) -> None:
        if key != "starved":
            super().on_timer(key)
        elif self._starved():
            if self._movement() == self._moved:
                raise TooManySubstreams(self._why_starved())
            self._look_whether_starved()

    def _why_starved(self) -> str:
        read, running = len(self._reading), len(self._running)
        if read < running:
            what = (
                f"merge_substreams_with_parallelism({self.stage.breadth}) reads {read} of {running} substreams, and these wait for elements, "
                f"while {self._held:,} elements wait for the others; use merge_substreams() or a higher parallelism"
            )
        else:
            what = (
                f"all of max_substreams={self.stage.max_substreams} substreams wait for elements, while the next element needs a new "
                "substream; raise max_substreams"
            )
        return f"group_by: {what}, or end substreams in their flow, for example with take or take_within"

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def end(self, sub: Substream) -> None:
        if self._by_use is not None:
            self._by_use.pop(sub, None)
        super().end(sub)

    def closed(self, sub: Substream) -> None:
        if self._by_use is not None:
            self._by_use.pop(sub, None)
        open_now = self._keyed.get(sub.key, sub)  # an evicted substream has no key any more
        if open_now is not sub:
            return
        if not self.stage.recreate:
            if sub.key in self._keyed:
                self._keyed[sub.key] = None
            return
        self._keyed.pop(sub.key, None)
        self.take_back(sub)
        if sub.waiting:
            left = Substream(sub.key)
            self.hand_down(sub, left)
            self._again.append(left)
            self._stuck.add(left)  # no further element is taken in before these have a substream
            self._open_again()

    def _open_again(self) -> None:
        while self._again and not self._is_full():
            left = self._again.popleft()
            self._stuck.discard(left)
            sub = self._open_for(left.key)
            self.hand_down(left, sub)
            if self._marks is not None:
                self._marks.ended(left)
            self._hand_over(sub)
            if self._upstream_done:
                self.end(sub)

    def over(self, sub: Substream) -> None:
        self.closed(sub)
        self._open_again()
