"""Operators that fold with an early end or a resource: fold_while, map_with_resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.stage import In, Out
from streamactors.stages.bases.emitting import WELL
from streamactors.stages.checks import plain_function
from streamactors.stages.fold.fold import Fold, StatefulMap, _FoldLogic


class FoldWhile(Fold[In, Out]):
    """Combine elements by `fn(value, element)`, beginning with `zero`, while `predicate(value)` is true; emit the result.

    Each run starts with a copy of `zero`. The value for which the predicate is false is the result.
    Emits when: the predicate is false, or upstream completes.   Backpressures when: downstream does.
    Completes when: the result has been emitted.                 Cancels when: the predicate is false, or downstream cancels.
    Supervision: resume drops the element, restart also goes back to `zero`.
    Marks: behind the result.
    """

    def __init__(self, zero: Any, predicate: Callable[[Any], Any], fn: Callable[[Any, Any], Any]) -> None:
        super().__init__(zero, fn)
        self.fn = plain_function("fold_while", fn)
        self.predicate = plain_function("fold_while", predicate)


@logic_of(FoldWhile)
class _FoldWhileLogic(_FoldLogic):
    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn, predicate = self.fn, self.stage.predicate
        for element in feed:
            self._value = value = fn(self._value, element)
            if not predicate(value):
                out.append(value)
                self.over = WELL
                break
            if stop:
                break


class MapWithResource(StatefulMap[In, Out]):
    """Turn each element into `fn(resource, element)`; `open()` makes the resource of a run, `close(resource)` ends it.

    `close` is called exactly once for each resource, however the stream ends; what it returns is emitted last, unless it is None.
    Emits when: `fn` has returned, and once at the end if `close` gives something.
    Backpressures when: downstream does.          Completes when: upstream completes and the last result has been emitted.
    Cancels when: downstream cancels.
    Supervision: resume drops the element; restart also closes the resource and opens a new one.
    Fails when: upstream or a function fails, behind what `close` gives.
    """

    def __init__(
        self, open: Callable[[], Any], fn: Callable[[Any, Any], Any], close: Callable[[Any], Any] | None = None
    ) -> None:
        plain_function("map_with_resource", fn)
        super().__init__(open, lambda resource, element: (resource, fn(resource, element)), close)
