"""distinct: each key once, within bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import plain_function, positive


class Distinct(Stage[In, In]):
    """The stage of `Source.distinct`."""

    handling = EXACT_MEMORY

    def __init__(self, capacity: int = 100_000, key: Callable[[Any], Any] | None = None) -> None:
        self.capacity = positive("distinct", "capacity", capacity)
        self.fn = None if key is None else plain_function("distinct", key)


@logic_of(Distinct)
class _DistinctLogic(ElementwiseLogic):
    stage: Distinct[Any]
    thins = True

    def __init__(self, stage: Distinct[Any]) -> None:
        super().__init__(stage)
        self._seen: dict[Any, None] = {}  # the oldest first

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        fn, seen, capacity = self.fn, self._seen, self.stage.capacity
        for element in feed:
            key = element if fn is None else fn(element)
            if key in seen:
                del seen[key]
            else:
                out.append(element)
                if len(seen) >= capacity:
                    del seen[next(iter(seen))]
            seen[key] = None
            if stop:
                return

    def restart(self, out: list[Any]) -> None:
        self._seen.clear()

    def snapshot_state(self) -> str:
        return f"{len(self._seen)} keys known"
