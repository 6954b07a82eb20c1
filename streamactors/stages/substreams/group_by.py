"""group_by: a substream per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from streamactors.engine.logic import logic_of
from streamactors.errors import BuildError, TooManySubstreams
from streamactors.stages.checks import positive
from streamactors.stages.substreams.substreams import Full, Substream, Substreams, SubstreamsLogic

WhenFull: TypeAlias = Literal["fail", "backpressure", "evict_idle"]
"""What group_by does with an element that needs one substream too many."""

WHEN_FULL: Final = ("fail", "backpressure", "evict_idle")


class GroupBy(Substreams):
    """Cut the stream into one substream per key.

    `when_full` says what happens to an element whose key would be substream number `max_substreams` + 1: "fail" fails the stream with
    TooManySubstreams, "backpressure" waits until a substream has ended, "evict_idle" completes the substream that was silent longest.
    A substream that has cancelled is closed: later elements of its key are dropped, and the key still counts; with
    `allow_closed_substream_recreation` it opens again, and gets the elements that the flow of the closed one has not taken.
    Emits when: a substream has a result.         Backpressures when: a substream with an element for it has no demand.
    Completes when: upstream and all substreams complete.   Cancels when: downstream cancels.
    Fails when: a substream fails, or there are too many.
    Supervision: resume drops an element for which `fn` raised, or that needs a substream too many.
    Marks: when all that stems from elements before them has left the substreams, if the substreams' flow is a chain of stages that pass
    marks; else they do not pass.
    """

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
        self._again: list[Substream] = []  # closed with elements pending; each waits until its key may open again

    def sort(self, feed: Iterator[Any]) -> None:
        fn, keyed, dirty = self.stage.fn, self._keyed, self._dirty
        for element in feed:  # as in the base, without a call per element
            key = fn(element)
            sub = keyed[key] if key in keyed else self._open_for(key)
            if sub is not None:
                pending = sub.pending
                if not pending:
                    dirty[sub] = None
                pending.append(element)

    def _open_for(self, key: Any) -> Substream:
        """Start the substream of a new key. Raises Full or TooManySubstreams."""
        stage = self.stage
        full = stage.max_substreams <= (len(self._keyed) if stage.when_full == "fail" else len(self._running))
        if full:
            if stage.when_full == "fail":
                raise TooManySubstreams(
                    f"group_by: key {key!r} needs more than max_substreams={stage.max_substreams} substreams; raise "
                    'max_substreams, or set when_full="backpressure" or "evict_idle"'
                )
            if stage.when_full == "evict_idle":
                self._evict()
            raise Full
        sub = self._keyed[key] = self.open(key)
        return sub

    def _evict(self) -> None:
        idlest = min((sub for sub in self._running if not sub.ending), key=lambda sub: sub.used, default=None)
        if idlest is not None and not any(sub.ending for sub in self._running):
            del self._keyed[idlest.key]
            self.end(idlest)

    def closed(self, sub: Substream) -> None:
        open_now = self._keyed.get(sub.key, sub)  # an evicted substream has no key any more
        if open_now is not sub:
            return
        if not self.stage.recreate:
            if sub.key in self._keyed:
                self._keyed[sub.key] = None
            return
        self._keyed.pop(sub.key, None)
        if sub.pending:
            left = Substream(sub.key, sub.into, sub.out)
            self.hand_down(sub, left)
            self._again.append(left)
            self._stuck.add(left)  # no further element is taken in before these have a substream
            self._open_again()

    def _open_again(self) -> None:
        while self._again:
            left = self._again[0]
            try:
                sub = self._open_for(left.key)
            except Full:
                return  # tried again when a substream has ended
            del self._again[0]
            self._stuck.discard(left)
            self.hand_down(left, sub)
            if self._marks is not None:
                self._marks.ended(left)
            self._dirty[sub] = None
            sub.ending = self._upstream_done

    def over(self, sub: Substream) -> None:
        self.closed(sub)
        self._open_again()
