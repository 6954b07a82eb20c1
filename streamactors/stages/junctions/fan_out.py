"""Fan-out junctions: broadcast, balance, partition, wire_tap. Chunks are shared between outputs, never copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import BLURS, EXACT, Mark
from streamactors.engine.stage import Element, Junction, fan_out
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function, positive

LAST_WORDS_MS = 50
"""The longest time that a completing fan-out in a busy island waits for cancellations that are on their way."""


class FanOutLogic(Logic):
    """Base of junctions with the inlet `self.in_` and several outlets, some of which may have cancelled.

    Completion must not overtake a failure that is on its way up from an output, or the result would depend on where chunks are cut.
    A fan-out that cancels eagerly waits until its island is idle; one with side sinks (sides_first.py), until these have ended."""

    passes_marks = True

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self.live = list(self.outlets)
        self._eager_cancel: bool | None = self.stage.eager_cancel
        if self._eager_cancel is None:  # what a cancelled branch would have got must not count as done
            self._eager_cancel = bool(self.in_.carries)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self.live.remove(out)
        if self._eager_cancel or not self.live:
            self.cancel_stage(cause)
        else:
            self.after_cancel()

    def after_cancel(self) -> None:
        """An output has cancelled; the others stay."""

    def on_complete(self, in_: Connection) -> None:
        if self._eager_cancel and len(self.live) > 1:
            self.call_when_idle(self.complete_stage)
            self.schedule_once("last words", LAST_WORDS_MS)
        else:
            self.complete_stage()

    def on_timer(self, key: object) -> None:
        self.complete_stage()


class Broadcast(Junction[Element, Element]):
    """Emit each element to every output.

    Emits when: all live outputs have demand and there is an element.   Backpressures when: any live output does.
    Completes when: upstream completes.
    Cancels when: all outputs have cancelled (eager_cancel: any of them).
    """

    handling = EXACT

    def __init__(self, outputs: int, eager_cancel: bool = False) -> None:
        self.outputs = positive("Broadcast", "outputs", outputs)
        self.shape = fan_out(outputs)
        self.eager_cancel = eager_cancel
        self.traits = replace(self.traits, ends_with_inputs=not eager_cancel)


@logic_of(Broadcast)
class _BroadcastLogic(FanOutLogic):
    _asked_by_all = 0  # a lower bound: demand grows between two looks
    _slowest = 0  # the index in `live` of an output with that demand

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
        """Return the least demand of the outputs.

        Each of n outputs asks at least once per chunk, so a look at all of them each time would cost n * n. A look begins at the slowest
        output of the last look, and mostly ends there."""
        live, n = self.live, len(self.live)
        for i in range(self._slowest, self._slowest + n):
            out = live[i % n]
            if out.asked <= self._asked_by_all and out.cause is None:
                self._slowest = i % n
                return self._asked_by_all
        # an output that has cancelled, but whose `on_cancel` has not been called yet, does not count: it drops every chunk
        self._asked_by_all = min((out.asked for out in live if out.cause is None), default=0)
        return self._asked_by_all

    def after_cancel(self) -> None:
        self._state_want()

    def _state_want(self) -> None:
        wanted = self._least()
        if wanted:
            self.in_.want(wanted)


class Balance(Junction[Element, Element]):
    """Emit each element to one output that has demand.

    When an output cancels, the elements that the first stage of its flow has not taken go to the other outputs.
    Emits when: any output has demand (wait_for_all: once all have asked).   Backpressures when: all outputs do.
    Completes when: upstream completes and the outputs have taken their elements.
    Cancels when: all outputs have cancelled (eager_cancel: any; the default in a run that follows marks).
    """

    handling = BLURS

    def __init__(self, outputs: int, wait_for_all_downstreams: bool = False, eager_cancel: bool | None = None) -> None:
        self.outputs = positive("Balance", "outputs", outputs)
        self.shape = fan_out(outputs)
        self.wait = wait_for_all_downstreams
        self.eager_cancel = eager_cancel
        self.traits = replace(self.traits, ends_with_inputs=not eager_cancel)


@logic_of(Balance)
class _BalanceLogic(FanOutLogic):
    def __init__(self, stage: Balance) -> None:
        super().__init__(stage)
        self._wait = stage.wait
        self._asking: list[Connection] = []  # outputs with demand, in the order they asked
        self._left: list[Any] = []  # what outputs had not taken when they cancelled
        self._upstream_over = False

    def bind(self) -> None:
        super().bind()
        if not self._eager_cancel:
            for out in self.live:
                out.keep_left()

    def on_pull(self, out: Connection) -> None:
        if out not in self._asking:
            self._asking.append(out)
        if self._left:
            self._left = self._balance(self._left)
        if self._upstream_over:
            self._complete_when_taken()
        else:
            self._state_want()

    def _state_want(self) -> None:
        if self._left:
            return
        if self._wait:
            if any(out not in self._asking for out in self.live):
                return
            self._wait = False
        wanted = sum(out.asked for out in self._asking if out.cause is None)
        if wanted:
            self.in_.want(max(wanted, self.in_.due))

    def on_push(self, in_: Connection) -> None:
        wanted = sum(out.asked for out in self._asking if out.can_push)
        if not self._wait and not self._left and wanted:
            self._balance(in_.grab(wanted))
        self._state_want()

    def _balance(self, chunk: list[Any]) -> list[Any]:
        """Push a chunk in equal parts, as far as each output has asked; return the rest."""
        asking = [out for out in self._asking if out.can_push]
        position, left = 0, len(chunk)
        for i, out in enumerate(asking):
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
        return chunk[position:]

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._left += [element for chunk in out.take_back() if type(chunk) is list for element in chunk]
        super().on_cancel(out, cause)

    def after_cancel(self) -> None:
        self._left = self._balance(self._left)
        if self._upstream_over:
            self._complete_when_taken()
        else:
            self._state_want()

    def on_complete(self, in_: Connection) -> None:
        if self._eager_cancel:
            super().on_complete(in_)
            return
        self._upstream_over = True
        self._complete_when_taken()

    def _complete_when_taken(self) -> None:
        """Complete once each output has taken what it got: what one of them leaves is for the others."""
        if self._is_taken():
            self.complete_stage()
        else:
            self.call_when_idle(self._complete_if_taken)

    def _complete_if_taken(self) -> None:
        if self._is_taken():
            self.complete_stage()

    def _is_taken(self) -> bool:
        return not self._left and not any(out.ready for out in self.live)


class Partition(Junction[Element, Element]):
    """Emit each element to the output that `partitioner(element)` names by index.

    Emits when: the chosen output has demand.     Backpressures when: the chosen output does; it blocks the others.
    Completes when: upstream completes.
    Cancels when: all outputs have cancelled (eager_cancel: any; the default in a run that follows marks). Elements for a
    cancelled output are dropped.
    Supervision: resume drops the element, also one with an index out of range.
    """

    handling = EXACT

    def __init__(self, outputs: int, partitioner: Callable[[Element], int], eager_cancel: bool | None = None) -> None:
        self.outputs = positive("Partition", "outputs", outputs)
        self.shape = fan_out(outputs)
        self.fn = plain_function("Partition", partitioner)
        self.eager_cancel = eager_cancel
        self.traits = replace(self.traits, ends_with_inputs=not eager_cancel)


@logic_of(Partition)
class _PartitionLogic(FanOutLogic):
    _waiting: tuple[Any, int] | None = None  # an element whose output has no demand yet

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
        parts: list[list[Any]] = [[] for _ in self.outlets]
        stop = self.interpreter.stop_slice
        error: BaseException | None = None
        fn, n = self.stage.fn, self.stage.outputs
        for element in self._pace.take(in_, wanted):
            try:
                index = fn(element)
                if not isinstance(index, int) or not 0 <= index < n:
                    raise BuildError(f"the partitioner must return an output's index from 0 to {n - 1}, got {index!r}")
            except BaseException as raised:  # noqa: BLE001  # the user's function
                decider = self.attributes.decider
                if decider is None or decider(raised) is Directive.STOP:
                    error = blame(raised, self.name, element, self.stage.fn)
                    break
                self.failures += 1
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
        self._pace.give_back(in_)
        for out, part in zip(self.outlets, parts, strict=True):
            if part:
                out.push(part)
        if error is not None:
            raise error
        self._state_want()

    def after_cancel(self) -> None:
        if self._waiting is not None and self.outlets[self._waiting[1]].cause is not None:
            self._waiting = None
            self.in_.release()
        self._state_want()


class WireTap(Junction[Element, Element]):
    """Pass every element on to the main output, and to a side output that never slows the main one down.

    The four "when"s are those of `Source.wire_tap`.
    """

    shape = fan_out(2)
    handling = EXACT
    traits = StageTraits(mark_ways=frozenset({(0, 0)}))


@logic_of(WireTap)
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
