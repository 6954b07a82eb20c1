"""Ops: the base of the operator mix-ins. An operator is written once, for every part with an open outlet.

    class LimitOps(Ops[Out, Mat]):
        def take(self, n: int) -> Ops[Out, Mat]:
            from streamactors.stages.limit.counting import Take

            return self._via(Take(n))

The method has the docstring of the operator: what it does, and the four "when"s. Its page and `help()` show it. `Ops[U, Mat]` in a signature stands for Source[U, Mat], Flow[In, U, Mat]
or a sub-flow, whichever it is called on. Type checkers see that through `all_operators.pyi`, which `tools/operator_stubs.py` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from streamactors.dsl.part import Part, checked_combine, joined, module_of
from streamactors.dsl.typevars import Mat, Out
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Module, StageModule, Wired, keep_left
from streamactors.engine.stage import NOT_USED, GraphStage
from streamactors.errors import BuildError


class Ops(Part[Mat], Generic[Out, Mat]):
    """A part with an open outlet, and the helpers of the operators."""

    __slots__ = ()

    def _with(self, module: Module) -> Ops[Any, Any]:
        """Return a part of this part's kind over another blueprint."""
        return type(self)(module)

    def _via(self, stage: GraphStage) -> Ops[Any, Mat]:
        """Return this part with `stage` after it."""
        return self._with(joined(self.module, StageModule(stage)))

    def _via_as(self, name: str, *stages: GraphStage) -> Ops[Any, Mat]:
        """As `_via` for the stages of a composed operator: errors and pictures show the operator's name."""
        module = self.module
        for stage in stages:
            module = joined(module, StageModule(stage, Attributes(name=name)))
        return self._with(module)

    def _via_mat(self, stage: GraphStage, combine: Callable[[Any, Any], Any]) -> Ops[Any, Any]:
        """As `_via`; the materialized value is `combine(this part's, the stage's)`."""
        return self._with(joined(self.module, StageModule(stage), checked_combine(stage.label, combine)))

    def _fan_in(
        self, junction: GraphStage, *others: Any, at: int = 0, mat: Callable[[Any, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Return this part and `others` (sources) feeding `junction`; this part at inlet `at`, the others around it in order.

        With one other, `mat` gets this part's and the other's materialized value."""
        combine = _combine_of_two(junction.label, others, mat)
        sources = [module_of(junction.label, other, (0, 1)) for other in others]
        return self._with(_fed(self.module, sources, StageModule(junction), at, combine))

    def _fan_out(
        self, junction: GraphStage, *sinks: Any, mat: Callable[[Any, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Return this part feeding `junction`, whose outlet 0 is the open one and whose other outlets feed `sinks`."""
        combine = _combine_of_two(junction.label, sinks, mat)
        modules = [module_of(junction.label, sink, (1, 0)) for sink in sinks]
        count = len(modules)
        if len(junction.shape.outlets) != count + 1:
            raise BuildError(f"{junction.label} has {len(junction.shape.outlets)} outlets for {count} sinks")
        fork = Wired(
            (StageModule(junction), *modules),
            tuple(((0, i + 1), (i + 1, 0)) for i in range(count)),
            ((0, 0),),
            ((0, 0),),
            lambda values: values[1] if count == 1 else NOT_USED,
        )
        return self._with(joined(self.module, fork, combine if combine is not keep_left else _keep_first))


def _combine_of_two(
    operator: str, others: tuple[Any, ...], mat: Callable[[Any, Any], Any] | None
) -> Callable[..., Any]:
    if mat is None:
        return keep_left
    if len(others) != 1:
        raise BuildError(
            f"{operator}: mat combines two materialized values, and there are {1 + len(others)} parts; call {operator} once for each part"
        )
    return checked_combine(operator, mat)


def _keep_first(left: Any, right: Any) -> Any:
    return left


def _fed(
    left: Module, sources: list[Module], junction: StageModule, at: int, combine: Callable[[Any, Any], Any]
) -> Module:
    count = len(sources)
    if len(junction.shape.inlets) != count + 1:
        raise BuildError(f"{junction.stage.label} has {len(junction.shape.inlets)} inlets for {count + 1} sources")
    inlets = [i for i in range(count + 1) if i != at]
    wires = [((0, 0), (1, at)), *(((i + 2, 0), (1, inlet)) for i, inlet in enumerate(inlets))]
    return Wired(
        (left, junction, *sources),
        tuple(wires),
        tuple((0, i) for i in range(len(left.shape.inlets))),
        ((1, 0),),
        lambda values: combine(values[0], values[2] if count == 1 else NOT_USED),
    )
