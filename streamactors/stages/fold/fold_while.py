"""fold_while: a fold that ends as soon as its value is the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.stage import In, Out
from streamactors.stages.bases.emitting import WELL
from streamactors.stages.checks import plain_function
from streamactors.stages.fold.fold import Fold, _FoldLogic


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
