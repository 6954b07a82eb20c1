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
    """The stage of `Source.fold_while`."""

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
