"""The marks of a stage with substreams. Pure, but for the connections that it puts marks into.

An outer mark may leave when everything that stems from elements before it has left every substream. So the substreams that have had elements
since the mark before get a mark of this stage's own after these elements; when it has come out of a substream's flow, the results of the
elements have, too. Substreams without elements since the last mark cost nothing.

    elements of epoch 0 ── outer mark ── elements of epoch 1 ── outer mark ── …      an outer mark waits for the substreams of its epoch"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamactors.engine.blueprint.modules import AsyncBoundary, Module
from streamactors.engine.boundary import BoundaryIn, BoundaryOut
from streamactors.engine.marks.marks import Epochs, Mark
from streamactors.engine.planning.plan import plan_of

if TYPE_CHECKING:
    from streamactors.stages.substreams.substream import Substream


def passes_marks(inner: Module) -> bool:
    """True if marks pass the flow of a substream: a chain of stages that pass marks, without readers of marks and without further inputs."""
    for node in plan_of(inner).nodes:
        stage, traits = node.stage, node.stage.traits
        if isinstance(stage, AsyncBoundary | BoundaryIn | BoundaryOut):
            continue
        if (
            len(stage.shape.inlets) != 1
            or len(stage.shape.outlets) != 1
            or not stage.handling.passes
            or traits.reads_marks
            or traits.needs is not None
            or traits.inner_sources == "runs"
            or traits.no_marks
        ):
            return False
    return True


class SubstreamMarks:
    """The marks of one stage with substreams. `touch` is called before elements are handed over, `mark` for each outer mark."""

    def __init__(self) -> None:
        self._epochs = Epochs()
        self._touched: dict[Substream, None] = {}  # substreams with elements since the last outer mark
        self._key = (self, 0)

    def touch(self, subs: dict[Any, None]) -> None:
        """These substreams have elements that came after the last outer mark."""
        self._touched.update(subs)

    def mark(self, mark: Mark) -> list[Mark]:
        """An outer mark has come; return the marks that may leave."""
        for sub in self._touched:
            token = self._epochs.enter()
            sub.tokens.append(token)
            if sub.waiting or sub.into is None:
                sub.cuts.append([sub.waiting, token])
            else:
                self._put(sub, token)
        self._touched.clear()
        return self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark)

    def _put(self, sub: Substream, token: int) -> None:
        assert sub.into is not None  # its flow has started: only then elements are handed over
        sub.into.mark({self._key: (1, token)})

    def token(self, mark: Any) -> int:
        """Return the token of a mark that was put into a substream."""
        token: int = mark[self._key][1]
        return token

    def handed_over(self, sub: Substream, n: int) -> None:
        """The first `n` pending elements of a substream with cuts have been pushed, and no further than its first cut."""
        for cut in sub.cuts:
            cut[0] -= n
        while sub.cuts and not sub.cuts[0][0]:
            self._put(sub, sub.cuts.pop(0)[1])

    def handed_down(self, old: Substream, new: Substream) -> None:
        """What was pending for a substream is pending for another: with it go the marks that were not put after it yet."""
        put = len(old.tokens) - len(old.cuts)
        new.tokens, old.tokens[put:] = old.tokens[put:], []
        new.cuts, old.cuts = old.cuts, []
        if old in self._touched:
            self._touched[new] = None

    def came_out(self, sub: Substream, mark: Mark) -> list[Mark]:
        """A mark has come out of a substream's flow; return the outer marks that may leave."""
        position = mark.get(self._key) if isinstance(mark, dict) else None
        ripe: list[Mark] = []
        while position is not None and sub.tokens and sub.tokens[0] <= position[1]:
            ripe += self._epochs.leave(sub.tokens.pop(0))
        return ripe

    def ended(self, sub: Substream) -> list[Mark]:
        """The results of a substream have ended; return the outer marks that may leave."""
        self._touched.pop(sub, None)
        ripe: list[Mark] = []
        while sub.tokens:
            ripe += self._epochs.leave(sub.tokens.pop(0))
        return ripe
