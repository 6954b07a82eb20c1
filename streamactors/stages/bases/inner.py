"""InnerLogic: the base of stages that run a flow or a sink inside themselves, which is known only while the stream runs.

    upstream ──► inlet ──► _into ──► the inner flow ──► _from ──► outlet ──► downstream

Elements that came before the inner part is known wait and enter it first. Marks stop here: the inner part is not known when the run is
planned."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.island.causes import NO_MORE_ELEMENTS, NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.user_code import shortened
from streamactors.errors import AbruptTermination, BuildError

_KINDS = {(1, 1): "a Flow", (1, 0): "a Sink", (0, 1): "a Source"}


def part_module(operator: str, value: Any, ports: tuple[int, int]) -> Module:
    """Return the blueprint of a part that user code returned. Raises BuildError when the value has other ports."""
    module = getattr(value, "module", value)
    if isinstance(module, Module) and (len(module.shape.inlets), len(module.shape.outlets)) == ports:
        return module
    raise BuildError(f"{operator} expects {_KINDS[ports]}, got {type(value).__name__} {shortened(value, 60)}")


class AroundInner(Logic):
    """A stage around an inner part. When the stage ends, it closes the connections into the part and out of it."""

    _into: Connection | None = None
    _from: Connection | None = None

    def _let_go(self, error: BaseException | None) -> None:
        """Close what is still open of the two connections: with the error, or in order."""
        into, out_of = self._into, self._from
        if out_of is not None and not out_of.in_closed:
            out_of.cancel(NO_MORE_ELEMENTS if error is None else error)
        if into is not None and not into.out_closed:
            if error is None:
                into.complete()
            else:
                into.fail(error)

    def complete_stage(self) -> None:
        self._let_go(None)
        super().complete_stage()

    def fail_stage(self, error: BaseException) -> None:
        self._let_go(error)
        super().fail_stage(error)


def source_module(operator: str, value: Any) -> Module:
    """Return the blueprint of a source that user code returned. Raises BuildError when the value is not a source."""
    module = getattr(value, "module", value)
    if isinstance(module, Module) and not module.shape.inlets and len(module.shape.outlets) == 1:
        return module
    raise BuildError(
        f"{operator} expects its function to return a Source, got {type(value).__name__} {shortened(value, 60)}"
    )


class InnerLogic(AroundInner):
    """The stage's ports say what the inner part is: a flow, or a sink for a stage without an outlet."""

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.materialized: StreamFuture[Any] = StreamFuture("the materialized value of the inner part")
        self.first: list[Any] = []  # elements that enter the inner part before all others
        self._upstream_done = False

    def bind(self) -> None:
        """Called when the connections are known."""
        self._in = self.inlets[0]
        self._out = self.outlets[0] if self.outlets else None

    @property
    def begun(self) -> bool:
        """True once the inner part runs."""
        return self._into is not None

    def begin(self, part: Any) -> None:
        """Run the inner part."""
        module = part_module(self.name, part, (1, 0 if self._out is None else 1))
        inputs, outputs, value = attach(self, module, inside=self._out is not None)
        self.keep_going = False
        self._into = inputs[0]
        self._from = outputs[0] if outputs else None
        self.materialized.try_complete(value)
        if self._from is not None and self._out is not None and self._out.asked:
            self._from.want(self._out.asked)
        if self._upstream_done and not self.first:
            self._into.complete()

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self._out:
            if self._from is not None:
                self._from.want(out.asked)
        elif out is self._into:
            self._feed(out)

    def _feed(self, into: Connection) -> None:
        if self.first:
            n = into.asked
            chunk, self.first = self.first[:n], self.first[n:]
            into.push(chunk)
            if self.first:
                return
            if self._upstream_done:
                into.complete()
                return
        if into.asked and not self._upstream_done:
            self._in.want(into.asked)

    def on_push(self, in_: Connection) -> None:
        target = self._into if in_ is self._in else self._out
        if target is None:
            return
        chunk = in_.grab(target.asked)
        if chunk:
            target.push(chunk)
        if target.asked:
            in_.want(target.asked)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is self._in:
            self._upstream_done = True
            if self._into is None:
                self.keep_going = True  # until the inner part is known
                self.ended_before()
            elif not self.first:
                self._into.complete()
        else:
            self.complete_stage()

    def ended_before(self) -> None:
        """Upstream has completed before the inner part is known."""

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self._in and self._into is not None:
            self.first = []
            self._into.fail(error)
        else:
            self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self._out:
            self.cancel_stage(cause)
        elif out is self._into:
            self.first = []
            if self._from is None:  # the sink needs no more elements, or has failed
                self.cancel_stage(cause)
            else:
                self._in.cancel(cause)  # the flow may still have elements to emit

    def fail_stage(self, error: BaseException) -> None:
        self.materialized.try_fail(error)
        super().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        self._let_go(None if isinstance(cause, NonFailureCancellation) else cause)
        super().cancel_stage(cause)

    def on_stop(self) -> None:
        if not self.materialized.done():
            self.materialized.try_fail(AbruptTermination(f"{self.name} ended before its inner part was known"))

    def snapshot_state(self) -> str:
        return "runs its inner part" if self.begun else "waits for its inner part"
