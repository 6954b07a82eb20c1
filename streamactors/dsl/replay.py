"""with_replay: the checks, and the attribute that tells a replayable source where to start and whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamactors.dsl.part import labels
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint import Attributed, Module
from streamactors.engine.plan import plan_of
from streamactors.engine.replay import Replay
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function


def replayed(module: Module, start: int, marks_at: Iterable[int], on_done: Callable[[int], Any] | None) -> Module:
    """Return `module` with its source started at `start`. Raises BuildError when there is not exactly one replayable source in it."""
    at_least("with_replay", "start", start, 0)
    if not isinstance(marks_at, Iterable):
        raise BuildError(f"with_replay: marks_at must be positions, got {shortened(marks_at, 60)}")
    positions = [at_least("with_replay", "marks_at", position, 0) for position in marks_at]
    if on_done is not None:
        plain_function("with_replay: on_done", on_done)
    sources = [node for node in plan_of(module).nodes if node.stage.emits_marks]
    if len(sources) != 1:
        have = "none here" if not sources else " and ".join(node.label for node in sources)
        raise BuildError(
            f"with_replay needs one source that can be read again (a range, a list, a re-iterable, from_lines), found {have}: "
            f"{labels(module, 60)}; give each source its own, before they are joined"
        )
    return Attributed(module, Attributes(replay=Replay.of(start, positions, on_done)))
