"""Restarting parts: a source, flow or sink that is created again, after a back-off, when it has failed (or ended).

Elements inside the part when it ends are lost, so RestartFlow and RestartSink refuse runs that read marks, unless they redeliver
(`redelivery.py`). What the part has not taken in goes to the next one. A flow that cancels its upstream has 50 ms to emit its last elements and
to complete or fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.graph import StageNode
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.planning.plan import plan_of
from streamactors.engine.stage import FLOW, NOT_USED, SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function
from streamactors.stages.control.redelivery import RedeliveringLogic
from streamactors.stages.control.restart_logic import RestartLogic
from streamactors.stages.restart_settings import RestartSettings


class _Restarting(GraphStage):
    """Base of the three stages."""

    what = ""
    ports = (0, 0)

    def __init__(
        self, settings: RestartSettings, make: Callable[[], Any], only_on_failures: bool, redeliver: bool = False
    ) -> None:
        if not isinstance(settings, RestartSettings):
            raise BuildError(
                f"{self.what} expects RestartSettings, got {type(settings).__name__} {shortened(settings, 60)}"
            )
        self._settings = settings
        self._make = plain_function(self.what, make)
        self._only_on_failures = only_on_failures
        self._redeliver = redeliver
        if redeliver:
            self.traits = StageTraits(reads_marks=True)
            self.handling = BLURS_MEMORY  # results may come twice
        self._lock = threading.Lock()
        self._nodes: list[StageNode] | None = None  # of the first inner part
        self._first: Module | BaseException | None = None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        if self._redeliver:
            logic = RedeliveringLogic(self._settings, self._module, self._only_on_failures, self.what)
            return logic, logic.value
        return RestartLogic(self._settings, self._module, self._only_on_failures), NOT_USED

    def _module(self) -> Module:
        try:
            part = self._make()
        except BaseException as error:
            blame(error, self.label, function=self._make)
            raise
        module = getattr(part, "module", part)
        if isinstance(module, Module) and (len(module.shape.inlets), len(module.shape.outlets)) == self.ports:
            return module
        raise BuildError(
            f"{self.what} expects a function that returns a {self.what.removeprefix('Restart')}, it returned "
            f"{type(part).__name__} {shortened(part, 60)}"
        )


class RestartingSource(_Restarting):
    """Emit the elements of a source; create the source again when it has failed or completed.

    Emits when: the source does.                  Backpressures when: downstream does; no element comes during a back-off.
    Completes when: restarts are used up and the source completed.   Cancels when: downstream cancels.
    Fails when: the source failed, and restarts are used up or `restart_on` is False for the error.
    """

    shape = SOURCE
    name = "restart_source"
    what = "RestartSource"
    ports = (0, 1)

    # The plan of the marks needs the source before the run starts: the source is then made early and used by the first start.

    @property
    def traits(self) -> StageTraits:  # type: ignore[override]
        """Those of the source inside."""
        nodes = self._inside()
        sources = [node.stage.traits for node in nodes if node.stage.traits.emits_marks]
        return StageTraits(
            emits_marks=bool(sources),
            sampled=any(traits.sampled for traits in sources),
            reads_marks=any(node.stage.traits.reads_marks or node.attributes.replay is not None for node in nodes),
            needs=sources[0].needs if sources else None,
            no_replay="creates its source again within the run; "
            "remove it, and run the whole graph again after a failure: the graph then continues where it stopped",
        )

    def _inside(self) -> list[StageNode]:
        with self._lock:
            if self._nodes is None:
                try:
                    self._first = module = super()._module()
                    self._nodes = plan_of(module).nodes
                except BuildError:
                    raise
                except BaseException as error:  # noqa: BLE001  # the user's function: a failure of the first start
                    self._first = error
                    self._nodes = []
                sources = [node.label for node in self._nodes if node.stage.traits.emits_marks]
                if len(sources) > 1 and any(node.stage.traits.reads_marks for node in self._nodes):
                    raise BuildError(
                        f"RestartSource can follow the elements of one source, and there are {' and '.join(sources)} inside; "
                        "put a RestartSource around each"
                    )
            return self._nodes

    def _module(self) -> Module:
        with self._lock:
            first, self._first = self._first, None
        if first is None:
            return super()._module()
        if isinstance(first, BaseException):
            raise first
        return first


class RestartingFlow(_Restarting):
    """Send elements through a flow; create the flow again when it has failed, completed or cancelled. Elements inside it are lost,
    or with `redeliver=True` given to the next one. What it has not taken in goes to the next one.

    Emits when: the flow does.                    Backpressures when: the flow does, and during a back-off.
    Completes when: upstream does and the flow completes, or restarts are used up.   Cancels when: downstream cancels.
    Fails when: the flow failed, and restarts are used up, `restart_on` is False for the error, or upstream has completed and no element is
    left.
    """

    shape = FLOW
    name = "restart_flow"
    what = "RestartFlow"
    ports = (1, 1)
    traits = StageTraits(no_marks="loses the elements inside it at a restart (redeliver=True keeps them)")


class RestartingSink(_Restarting):
    """Send elements to a sink; create the sink again when it has failed or cancelled. Elements inside it are lost, or with
    `redeliver=True` given to the next one. What it has not taken in goes to the next one.

    Backpressures when: the sink does, and during a back-off.
    Cancels when: the sink failed or cancelled, and restarts are used up or `restart_on` is False for the error.
    """

    shape = SINK
    name = "restart_sink"
    what = "RestartSink"
    ports = (1, 0)
    traits = StageTraits(no_marks="loses the elements inside it at a restart (redeliver=True keeps them)")
