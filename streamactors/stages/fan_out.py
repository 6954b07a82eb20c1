"""Fan-out junctions: broadcast, balance, partition, wire_tap. Chunks are shared between outputs, never copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import BLURS, EXACT, Mark
from streamactors.engine.pace import Pace
from streamactors.engine.stage import NOT_USED, GraphStage, fan_out
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function, positive


class FanOutLogic(Logic):
    """Base of junctions with the inlet `self.in_` and several outlets, some of which may have cancelled."""

    passes_marks = True

    def __init__(self, eager_cancel: bool | None) -> None:
        self._eager_cancel = eager_cancel

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self.live = list(self.outlets)
        if self._eager_cancel is None:  # what a cancelled branch would have got must not count as done
            self._eager_cancel = bool(self.in_.carries)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self.live.remove(out)
        if self._eager_cancel or not self.live:
            self.cancel_stage(cause)
        else:
            self.after_cancel()

    def after_cancel(self) -> None:
        """An output has gone; the others go on."""


class Broadcast(GraphStage):
    """Emit each element to every output.

    Emits when: all live outputs have demand and there is an element.   Backpressures when: any live output does.
    Completes when: upstream completes.
    Cancels when: all outputs have cancelled (eager_cancel: any of them).
    """

    handling = EXACT

    def __init__(self, outputs: int, eager_cancel: bool = False) -> None:
        self.outputs = positive("Broadcast", "outputs", outputs)
        self.shape = fan_out(outputs)
        self._eager_cancel = eager_cancel

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _BroadcastLogic(self._eager_cancel), NOT_USED


class _BroadcastLogic(FanOutLogic):
    _asked_by_all = 0  # or less: demand grows between two looks
    _slowest = 0  # where in `live` one had asked for no more than that

    def on_pull(self, out: Connection) -> None:
        self._state_want()

    def on_push(self, in_: Connection) -> None:
        wanted = self._least()
        chunk = in_.grab(wanted)
        if chunk:
            for out in self.live:
                out.push(chunk)
            wanted -= len(chunk)
            self._asked_by_all = wanted
        if wanted:
            in_.want(max(wanted, in_.due))

    def _least(self) -> int:
        """Return what all outputs have demand for.

        Each of n outputs asks once or more per chunk, so looking at all of them each time would cost n * n: a look begins at the slowest
        output of the last one, and mostly ends there."""
        live, n = self.live, len(self.live)
        for i in range(self._slowest, self._slowest + n):
            out = live[i % n]
            if out.asked <= self._asked_by_all and out.cause is None:
                self._slowest = i % n
                return self._asked_by_all
        # one that has cancelled and whose notice is still on the way takes what is pushed for nothing
        self._asked_by_all = min((out.asked for out in live if out.cause is None), default=0)
        return self._asked_by_all

    def after_cancel(self) -> None:
        self._state_want()

    def _state_want(self) -> None:
        wanted = self._least()
        if wanted:
            self.in_.want(wanted)


class Balance(GraphStage):
    """Emit each element to one output that has demand.

    Emits when: any output has demand (wait_for_all: once all have asked).   Backpressures when: all outputs do.
    Completes when: upstream completes.
    Cancels when: all outputs have cancelled (eager_cancel: any; the default in a run that follows marks).
    """

    handling = BLURS

    def __init__(self, outputs: int, wait_for_all_downstreams: bool = False, eager_cancel: bool | None = None) -> None:
        self.outputs = positive("Balance", "outputs", outputs)
        self.shape = fan_out(outputs)
        self._wait = wait_for_all_downstreams
        self._eager_cancel = eager_cancel

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _BalanceLogic(self._wait, self._eager_cancel), NOT_USED


class _BalanceLogic(FanOutLogic):
    def __init__(self, wait: bool, eager_cancel: bool | None) -> None:
        super().__init__(eager_cancel)
        self._wait = wait
        self._asking: list[Connection] = []  # outputs with demand, in the order they asked

    def on_pull(self, out: Connection) -> None:
        if out not in self._asking:
            self._asking.append(out)
        self._state_want()

    def _state_want(self) -> None:
        if self._wait:
            if any(out not in self._asking for out in self.live):
                return
            self._wait = False
        wanted = sum(out.asked for out in self._asking if out.cause is None)
        if wanted:
            self.in_.want(max(wanted, self.in_.due))

    def on_push(self, in_: Connection) -> None:
        asking = [out for out in self._asking if out.can_push]
        wanted = sum(out.asked for out in asking)
        if not self._wait and wanted:
            chunk = in_.grab(wanted)
            position, left = 0, len(chunk)
            for i, out in enumerate(asking):  # in equal parts, as far as each has asked
                part = min(out.asked, -(-left // (len(asking) - i)))
                if part:
                    out.push(chunk[position : position + part])
                    position += part
                    left -= part
            for out in asking:
                if left and out.asked:
                    part = min(out.asked, left)
                    out.push(chunk[position : position + part])
                    position += part
                    left -= part
            self._asking = [out for out in asking if out.asked]
        self._state_want()

    def after_cancel(self) -> None:
        self._asking = [out for out in self._asking if out.cause is None]
        self._state_want()


class Partition(GraphStage):
    """Emit each element to the output that `partitioner(element)` names by index.

    Emits when: the chosen output has demand.     Backpressures when: the chosen output does; it blocks the others.
    Completes when: upstream completes.
    Cancels when: all outputs have cancelled (eager_cancel: any; the default in a run that follows marks). Elements for a
    cancelled output are dropped.
    Supervision: resume drops the element, also one with an index out of range.
    """

    handling = EXACT

    def __init__(self, outputs: int, partitioner: Callable[[Any], int], eager_cancel: bool | None = None) -> None:
        self.outputs = positive("Partition", "outputs", outputs)
        self.shape = fan_out(outputs)
        self._fn = plain_function("Partition", partitioner)
        self._eager_cancel = eager_cancel

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _PartitionLogic(self._fn, self.outputs, self._eager_cancel), NOT_USED


class _PartitionLogic(FanOutLogic):
    def __init__(self, fn: Callable[[Any], int], outputs: int, eager_cancel: bool | None) -> None:
        super().__init__(eager_cancel)
        self._fn = fn
        self._n = outputs
        self._waiting: tuple[Any, int] | None = None  # an element whose output has no demand yet

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def on_pull(self, out: Connection) -> None:
        if self._waiting is not None:
            element, index = self._waiting
            if out.out_index != index:
                return
            self._waiting = None
            out.push([element])
            self.in_.release()
        self._state_want()

    def _state_want(self) -> None:
        if self._waiting is None:
            wanted = min((out.asked for out in self.live if out.asked), default=0)
            if wanted:
                in_ = self.in_
                in_.want(max(min(wanted, self._pace.window), in_.due))

    def on_push(self, in_: Connection) -> None:
        if self._waiting is not None:
            return
        wanted = sum(out.asked for out in self.live)
        chunk = in_.grab(min(wanted, self._pace.limit))
        parts: list[list[Any]] = [[] for _ in range(self._n)]
        stop = self._pace.begin()
        taken = 0
        error: BaseException | None = None
        for element in chunk:
            taken += 1
            try:
                index = self._index(element)
            except BaseException as raised:  # noqa: BLE001  # the user's function
                decider = self.attributes.decider
                if decider is None or decider(raised) is Directive.STOP:
                    error = blame(raised, self.name, element, self._fn)
                    break
                continue
            out = self.outlets[index]
            if out.cause is not None:
                continue  # for a cancelled output
            if out.asked > len(parts[index]):
                parts[index].append(element)
            else:
                self._waiting = (element, index)
                in_.hold()
                break
            if stop:
                break
        self._pace.end(taken)
        if taken < len(chunk):
            in_.unread(chunk[taken:])
        for out, part in zip(self.outlets, parts, strict=True):
            if part:
                out.push(part)
        if error is not None:
            raise error
        self._state_want()

    def _index(self, element: Any) -> int:
        index = self._fn(element)
        if isinstance(index, int) and 0 <= index < self._n:
            return index
        raise BuildError(f"the partitioner must return an output's index from 0 to {self._n - 1}, got {index!r}")

    def after_cancel(self) -> None:
        if self._waiting is not None and self.outlets[self._waiting[1]].cause is not None:
            self._waiting = None
            self.in_.release()
        self._state_want()


class WireTap(GraphStage):
    """Pass every element on, and give a copy to a side output that never slows the main one down.

    Emits when: upstream has an element and downstream demand; the side gets what it has asked for, the rest is dropped there.
    Backpressures when: downstream does.   Completes when: upstream completes.   Cancels when: downstream cancels.
    """

    shape = fan_out(2)
    handling = EXACT

    def marks_reach(self, inlet: int, outlet: int) -> bool:
        return outlet == 0

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _WireTapLogic(), NOT_USED


class _WireTapLogic(Logic):
    def on_pull(self, out: Connection) -> None:
        if out.out_index == 0:
            self.inlets[0].want(out.asked)

    def on_push(self, in_: Connection) -> None:
        main, side = self.outlets
        chunk = in_.grab(main.asked)
        if chunk:
            main.push(chunk)
            if side.can_push:
                side.push(chunk[: side.asked])
        if main.asked:
            in_.want(max(main.asked, in_.due))

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.outlets[0].mark(mark)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out.out_index == 0:
            self.cancel_stage(cause)
