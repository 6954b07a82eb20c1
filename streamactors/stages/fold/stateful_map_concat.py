"""stateful_map_concat: map_concat by a function that each run creates, so that the function may keep a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Out
from streamactors.engine.user_code import blame
from streamactors.stages.checks import plain_function
from streamactors.stages.fold.fold import StatefulMap
from streamactors.stages.transform.expanding import MapConcat, MapConcatLogic


class StatefulMapConcat(MapConcat[In, Out]):
    """The stage of `Source.stateful_map_concat`."""

    handling = EXACT_MEMORY
    forgets = StatefulMap.forgets

    def __init__(self, create: Callable[[], Callable[[Any], Iterable[Any]]]) -> None:
        self.create_function = plain_function("stateful_map_concat", create)


@logic_of(StatefulMapConcat)
class _StatefulLogic(MapConcatLogic):
    stage: StatefulMapConcat[Any, Any]

    def begin(self) -> None:
        create = self.stage.create_function
        try:
            self.fn = plain_function("stateful_map_concat: what create() returns", create())
        except BaseException as error:
            blame(error, self.name, function=create)
            raise
