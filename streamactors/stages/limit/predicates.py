"""Operators that look at elements to decide which pass: take_while, take_until, drop_while, drop_repeated.

filter and filter_not are in transform/mapping.py, because they are fused. Marks pass at once and exactly; all of these operators remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.bases.emitting import WELL
from streamactors.stages.checks import plain_function

_NOTHING: Any = object()


class TakeWhile(Stage[In, In]):
    """The stage of `Source.take_while`."""

    handling = EXACT_MEMORY

    def __init__(self, predicate: Callable[[Any], Any], inclusive: bool = False) -> None:
        self.fn = plain_function("take_while", predicate)
        self.going_on = True  # the stream continues while the predicate has this truth value
        self.inclusive = inclusive


class TakeUntil(Stage[In, In]):
    """The stage of `Source.take_until`."""

    handling = EXACT_MEMORY

    def __init__(self, predicate: Callable[[Any], Any]) -> None:
        self.fn = plain_function("take_until", predicate)
        self.going_on = False
        self.inclusive = True


@logic_of(TakeWhile, TakeUntil)
class _TakeWhileLogic(ElementwiseLogic):
    def on_start(self) -> None:
        super().on_start()
        self.one_result_each = self.attributes.decider is None

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn = self.fn
        going_on = self.stage.going_on
        for element in feed:
            if bool(fn(element)) is not going_on:
                if self.stage.inclusive:
                    out.append(element)
                else:
                    self.back = 1
                self.over = WELL
                return
            out.append(element)
            if stop:
                return


class DropWhile(Stage[In, In]):
    """The stage of `Source.drop_while`."""

    handling = EXACT_MEMORY

    def __init__(self, predicate: Callable[[Any], Any]) -> None:
        self.fn = plain_function("drop_while", predicate)


@logic_of(DropWhile)
class _DropWhileLogic(ElementwiseLogic):
    thins = True

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        if self.thins:
            fn = self.fn
            for element in feed:
                if not fn(element):
                    self.thins = False
                    out.append(element)
                    break
                if stop:
                    return
        out.extend(feed)


class DropRepeated(Stage[In, In]):
    """The stage of `Source.drop_repeated`."""

    handling = EXACT_MEMORY

    def __init__(self, same: Callable[[Any, Any], Any] | None = None) -> None:
        self.fn = same if same is None else plain_function("drop_repeated", same)


@logic_of(DropRepeated)
class _DropRepeatedLogic(ElementwiseLogic):
    thins = True

    _last = _NOTHING

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        same = self.fn
        last = self._last
        try:
            if last is _NOTHING:
                for last in feed:  # the first element of all
                    out.append(last)
                    break
            if same is None:
                for element in feed:
                    if element != last:
                        out.append(element)
                        last = element
                    if stop:
                        return
            else:
                for element in feed:
                    if not same(last, element):
                        out.append(element)
                        last = element
                    if stop:
                        return
        finally:
            self._last = last

    def restart(self, out: list[Any]) -> None:
        self._last = _NOTHING
