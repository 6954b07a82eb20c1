"""Parts that are made while the stream runs: lazy_flow, future_flow, lazy_sink, future_sink and their like. Sources are in sources/deferred.py.

The lazy ones are made when the first element comes; the future ones when a future has ended. from_materializer makes a part when the run
starts, from the system and the attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.stage import FLOW, SINK, GraphStage
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.bases.inner import InnerLogic
from streamactors.stages.checks import function, plain_function


def awaitable(operator: str, value: Any) -> Any:
    """Return a future or another awaitable. Raises BuildError for anything else."""
    if not can_be_awaited(value):
        raise BuildError(
            f"{operator} expects a future or another awaitable, got {type(value).__name__} {shortened(value, 60)}"
        )
    return value


class LaterPart(GraphStage):
    """Base: `name` is the operator; the shape is a flow's or a sink's. Materializes a future of the inner part's materialized value."""

    def __init__(self, name: str, sink: bool) -> None:
        self.name = name
        self.shape = SINK if sink else FLOW

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic: Any = self.logic()
        return logic, logic.materialized


class LazyPart(LaterPart):
    """The stage of `Flow.lazy_flow`, `Flow.lazy_future_flow`, `Sink.lazy_sink` and `Sink.lazy_future_sink`.

    The first element that comes is the first of the inner part, too. Without an element `make` is never called."""

    def __init__(self, name: str, make: Callable[[], Any], sink: bool = False) -> None:
        super().__init__(name, sink)
        self.make = function(name, make)


class FuturePart(LaterPart):
    """The stage of `Flow.future_flow` and `Sink.future_sink`."""

    def __init__(self, name: str, future: Any, sink: bool = False) -> None:
        super().__init__(name, sink)
        self.future = awaitable(name, future)


class FromMaterializer(LaterPart):
    """The stage of `Flow.from_materializer` and `Sink.from_materializer`."""

    def __init__(self, make: Callable[[Any, Attributes], Any], sink: bool = False) -> None:
        super().__init__("from_materializer", sink)
        self.make = plain_function("from_materializer", make)


class Made(Logic):
    """Calls the user's function for the inner part, or waits for a future of it."""

    def begin(self, part: Any) -> None:
        """Run the inner part."""
        raise NotImplementedError

    def begin_with(self, fn: Callable[..., Any], *arguments: Any) -> None:
        """Run the part that `fn(*arguments)` returns."""
        try:
            part = fn(*arguments)
        except BaseException as error:
            blame(error, self.name, function=fn)
            raise
        self.given(part)

    def given(self, part: Any) -> None:
        """The function has returned."""
        self.begin(part)

    def came(self, part: Any, error: BaseException | None) -> None:
        """The future of the part is done."""
        if error is not None:
            self.fail_stage(error)
        else:
            self.begin(part)


class MadeLogic(InnerLogic, Made):
    """The part may be a future's result, too."""

    def given(self, part: Any) -> None:
        if not hasattr(part, "module") and can_be_awaited(part):
            when_done(self, part, self.came)
        else:
            self.begin(part)


@logic_of(LazyPart)
class _LazyLogic(MadeLogic):
    _asked = False

    def on_start(self) -> None:
        if self._out is None:
            self._in.want(1)

    def on_pull(self, out: Connection) -> None:
        if self.begun:
            super().on_pull(out)
        elif not self._asked:
            self._in.want(1)

    def on_push(self, in_: Connection) -> None:
        if self.begun:
            super().on_push(in_)
        elif not self._asked:
            self.first = in_.grab(1)
            self._asked = True
            self.begin_with(self.stage.make)

    def ended_before(self) -> None:
        if not self._asked:
            self.complete_stage()


@logic_of(FuturePart)
class _FutureLogic(MadeLogic):
    def on_start(self) -> None:
        when_done(self, self.stage.future, self.came)


@logic_of(FromMaterializer)
class _FromMaterializerLogic(MadeLogic):
    def on_start(self) -> None:
        self.begin_with(self.stage.make, self.interpreter.island.run.system, self.attributes)
