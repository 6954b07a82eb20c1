"""Sources whose element or whose inner source is known later: future, future_source, lazy_source, maybe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.awaiting import when_done
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic, logic_of
from streamactors.engine.marks.marks import Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import AbruptTermination
from streamactors.stages.bases.inner import source_module
from streamactors.stages.bases.later import Made, awaitable
from streamactors.stages.checks import plain_function

T = TypeVar("T")


class FromFuture(GraphStage):
    """The stage of `Source.future`."""

    shape = SOURCE
    name = "future"

    def __init__(self, future: Any) -> None:
        self.future = awaitable("future", future)


@logic_of(FromFuture)
class _FutureLogic(SourceLogic):
    stage: FromFuture
    _result: list[Any] | None = None

    def on_start(self) -> None:
        when_done(self, self.stage.future, self._came)

    def _came(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            self.fail_stage(error)
        else:
            self._result = [result]
            self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        if self._result is not None and out.can_push:
            out.push(self._result)
            self.complete_stage()


class MaybeHandle(Generic[T]):
    """Materialized by `maybe`: decides, once and on any thread, how the source ends."""

    def __init__(self) -> None:
        self._outcome: StreamFuture[tuple[T, ...]] = StreamFuture("maybe")

    def succeed(self, element: T) -> bool:
        """Emit one element and complete; return False if it was decided already."""
        return self._outcome.try_complete((element,))

    def complete(self) -> bool:
        """Complete without an element; return False if it was decided already."""
        return self._outcome.try_complete(())

    def fail(self, error: BaseException) -> bool:
        """Fail the source; return False if it was decided already."""
        return self._outcome.try_fail(error)

    @property
    def decided(self) -> bool:
        """True when one of the three was called, or downstream has cancelled."""
        return self._outcome.done()


class Maybe(GraphStage):
    """The stage of `Source.maybe`."""

    traits = StageTraits(endless=True)
    shape = SOURCE

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        handle: MaybeHandle[Any] = MaybeHandle()
        return _MaybeLogic(handle), handle


class _MaybeLogic(SourceLogic):
    _decided: tuple[Any, ...] | None = None

    def __init__(self, handle: MaybeHandle[Any]) -> None:
        self._handle = handle

    def on_start(self) -> None:
        when_done(self, self._handle._outcome, self._came)

    def _came(self, decided: tuple[Any, ...], error: BaseException | None) -> None:
        if error is not None:
            self.fail_stage(error)
        elif not decided:
            self.complete_stage()
        else:
            self._decided = decided
            self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        if self._decided is not None and out.can_push:
            out.push(list(self._decided))
            self.complete_stage()

    def on_stop(self) -> None:
        self._handle.complete()  # later calls return False


class LaterSource(GraphStage):
    """Base of the sources whose inner source is not known when the run begins. Materializes a future of its materialized value."""

    shape = SOURCE

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic: Any = self.logic()
        return logic, logic.materialized


class FutureSource(LaterSource):
    """The stage of `Source.future_source`."""

    name = "future_source"

    def __init__(self, future: Any) -> None:
        self.future = awaitable("future_source", future)


class LazySource(LaterSource):
    """The stage of `Source.lazy_source`, `Source.lazy_single`, `Source.lazy_future` and `Source.lazy_future_source`."""

    name = "lazy_source"

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = plain_function("lazy_source", make)


class FromMaterializerSource(LaterSource):
    """The stage of `Source.from_materializer`."""

    name = "from_materializer"

    def __init__(self, make: Callable[[Any, Attributes], Any]) -> None:
        self.make = plain_function("from_materializer", make)


class _LaterLogic(Made, SourceLogic):
    """Passes on the elements of an inner source, once it is known."""

    _inner: Connection | None = None

    def __init__(self, stage: LaterSource) -> None:
        super().__init__(stage)
        self.materialized: StreamFuture[Any] = StreamFuture("the materialized value of the inner source")

    def begin(self, part: Any) -> None:
        _, (inner,), value = attach(self, source_module(self.name, part))
        self.inlets.append(inner)  # so that it is cancelled with the stage
        self._inner = inner
        self.materialized.try_complete(value)
        inner.want(self.out.asked)

    def on_pull(self, out: Connection) -> None:
        if self._inner is not None:
            self._inner.want(out.asked)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        out.push(in_.grab(out.asked))
        in_.want(out.asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.out.mark(mark)

    def fail_stage(self, error: BaseException) -> None:
        self.materialized.try_fail(error)
        super().fail_stage(error)

    def on_stop(self) -> None:
        if not self.materialized.done():
            self.materialized.try_fail(AbruptTermination(f"{self.name} ended before its inner source was known"))


@logic_of(FutureSource)
class _FutureSourceLogic(_LaterLogic):
    def on_start(self) -> None:
        when_done(self, self.stage.future, self.came)


@logic_of(LazySource)
class _LazySourceLogic(_LaterLogic):
    _made = False

    def on_pull(self, out: Connection) -> None:
        if self._made:
            super().on_pull(out)
        else:
            self._made = True
            self.begin_with(self.stage.make)


@logic_of(FromMaterializerSource)
class _FromMaterializerLogic(_LaterLogic):
    def on_start(self) -> None:
        self.begin_with(self.stage.make, self.interpreter.island.run.system, self.attributes)
