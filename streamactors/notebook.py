"""For notebooks: a running graph that is redrawn while it runs.

    from streamactors.notebook import watch
    done = graph.run()
    watch(graph)

Graphs, stores and tables show themselves when they are the last value of a cell. Needs IPython, which every notebook has."""

from __future__ import annotations

import threading
from typing import Any, Final

from streamactors.dsl.part import Part
from streamactors.durations import Duration, duration_s
from streamactors.engine.snapshot import unended_runs
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

LEAST_S: Final = 0.1


class Watching:
    """The figure of a graph that is redrawn until its runs have ended, or until `stop`."""

    def __init__(self, graph: Part[Any], handle: Any, every_s: float) -> None:
        self._graph = graph
        self._handle = handle
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._redraw, args=(every_s,), name="notebook figure", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the figure as it is."""
        self._stop.set()
        self._thread.join(LEAST_S)

    @property
    def running(self) -> bool:
        """True while the figure is redrawn."""
        return self._thread.is_alive()

    def _redraw(self, every_s: float) -> None:
        while not self._stop.wait(every_s):
            over = not unended_runs(self._graph.module)
            self._handle.update(
                self._graph
            )  # at the end its plan: a figure that stays would look as if the graph went on
            if over:
                return

    def __repr__(self) -> str:
        return f"<the figure of {self._graph!r}, {'redrawn until it ends' if self.running else 'not redrawn any more'}>"


def watch(graph: Part[Any], every: Duration = 1.0) -> Watching:
    """Show the figure of a running graph below the cell, and redraw it every second until the graph has ended. Raises BuildError without IPython, and for
    what is no graph."""
    if not isinstance(graph, Part):
        raise BuildError(f"watch: expected the graph that was run, got {type(graph).__name__} {shortened(graph, 60)}")
    try:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]  # no dependency of ours
    except ImportError:
        raise BuildError("watch: there is no IPython here; in a terminal use: streamactors top MODULE:GRAPH") from None
    every_s = max(LEAST_S, duration_s(every, "every"))
    return Watching(graph, display(graph, display_id=True), every_s)
