"""map_with_resource: a stateful map whose state is a resource that each run opens and closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.stage import In, Out
from streamactors.stages.checks import plain_function
from streamactors.stages.fold.fold import StatefulMap, StatefulMapLogic


class MapWithResource(StatefulMap[In, Out]):
    """The stage of `Source.map_with_resource`."""

    def __init__(
        self, open: Callable[[], Any], fn: Callable[[Any, Any], Any], close: Callable[[Any], Any] | None = None
    ) -> None:
        plain_function("map_with_resource", fn)
        super().__init__(open, lambda resource, element: (resource, fn(resource, element)), close)


@logic_of(MapWithResource)
class _MapWithResourceLogic(StatefulMapLogic):
    def restart(self, out: list[Any]) -> None:
        super().restart([])  # what `close` returns belongs to the end of the stream
