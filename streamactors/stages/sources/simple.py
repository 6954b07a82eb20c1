"""Simple sources: single, empty, repeat, cycle, failed, never.

All but the last two extend FromIterable, so they are fused with the operators after them. All but repeat, cycle, failed and
never can be replayed by element index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic, SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.sources.iterables import FromIterable


class Single(FromIterable):
    """The stage of `Source.single`."""

    name = "single"

    def __init__(self, element: Any) -> None:
        super().__init__((element,))


class Empty(FromIterable):
    """The stage of `Source.empty`."""

    name = "empty"

    def __init__(self) -> None:
        super().__init__(())


class Repeat(FromIterable):
    """The stage of `Source.repeat`."""

    name = "repeat"

    traits = StageTraits(endless=True)

    def __init__(self, element: Any) -> None:
        super().__init__(())
        self._element = element
        self.traits = type(self).traits

    def feed(self, attributes: Attributes) -> Any:
        """Return a fresh feed."""
        return _RepeatFeed(self._element)


class _RepeatFeed:
    exhausted = False
    position = 0

    def __init__(self, element: Any) -> None:
        self._element = element

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """Return the element n times."""
        return iter([self._element] * n)

    def unread(self, n: int) -> None:
        """Do nothing: the feed has no end."""


class Cycle(FromIterable):
    """The stage of `Source.cycle`."""

    name = "cycle"

    traits = StageTraits(endless=True)

    def __init__(self, elements: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if isinstance(elements, Iterator):
            raise BuildError(
                f"cycle expects an iterable that can be iterated again, or a function that makes one, got the iterator "
                f"{shortened(elements, 60)}"
            )
        if not callable(elements) and not hasattr(elements, "__iter__") and not hasattr(elements, "__getitem__"):
            raise BuildError(f"cycle expects an iterable, got {type(elements).__name__} {shortened(elements, 60)}")
        super().__init__(_Cycling(elements))
        self.traits = type(self).traits


class _Cycling:
    def __init__(self, elements: Any) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[Any]:
        elements = self._elements
        while True:
            got_any = False
            for element in elements() if callable(elements) else elements:
                got_any = True
                yield element
            if not got_any:
                raise ValueError("cycle: the iterable is empty, so there is no element to emit")


class Failed(GraphStage):
    """The stage of `Source.failed`."""

    shape = SOURCE

    def __init__(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            raise BuildError(f"failed expects an exception, got {type(error).__name__} {shortened(error, 60)}")
        self.error = error


@logic_of(Failed)
class _FailedLogic(SourceLogic):
    stage: Failed

    def on_start(self) -> None:
        self.fail_stage(self.stage.error)


class Never(GraphStage):
    """The stage of `Source.never`."""

    traits = StageTraits(endless=True)
    shape = SOURCE

    def logic(self) -> Logic:
        return SourceLogic()
