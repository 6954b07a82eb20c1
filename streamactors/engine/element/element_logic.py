"""ElementLogic: drives a per-element stage. Feeds pulled inlets from chunks, collects pushed elements into chunks.

The stage's handlers see one element at a time; one loop calls them for a slice of a chunk. An outlet is granted
as many pulls as downstream asks for. When `on_pull` only pulls the only inlet, the loop does that itself instead of calling `on_pull`.

Owner: the island, as for every logic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.engine.element.ports import CLOSED, EMPTY, FED, PULLED, RESTING, Inlet, Outlet, Reader
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Mark
from streamactors.engine.user_code import blame

if TYPE_CHECKING:
    from streamactors.engine.element.graph_stage_logic import GraphStageLogic
    from streamactors.engine.island.stage_actor import StageActor


class ElementLogic(Logic):
    """Runs a per-element logic as a logic of chunks. `user` is the stage's own logic."""

    def __init__(self, user: GraphStageLogic) -> None:
        self.user = user
        self.started = False
        self.feeding = False
        self.actor: StageActor | None = None
        self._holding = False
        user._logic = self

    def bind(self) -> None:
        """Give the user's logic its ports."""
        user = self.user
        user.name = name = self.name
        user.attributes = self.attributes
        one_in, one_out = len(self.inlets) == 1, len(self.outlets) == 1
        user.inlets = [
            Inlet(f"{name}.in" if one_in else f"{name}.in({i})", connection, user.on_push)
            for i, connection in enumerate(self.inlets)
        ]
        user.outlets = [
            Outlet(f"{name}.out" if one_out else f"{name}.out({i})", connection, user.on_pull, False)
            for i, connection in enumerate(self.outlets)
        ]
        if one_in and one_out:
            user.outlets[0].passive = user.pulls_only()

    # ── from the interpreter ──────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self.started = True
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.user.pre_start()
        self.settle()

    def on_pull(self, out: Connection) -> None:
        self._offer(self.user.outlets[out.out_index])
        self.settle()

    def on_push(self, in_: Connection) -> None:
        inlet = self.user.inlets[in_.in_index]
        if inlet.state == PULLED:
            self._feed(inlet)
        self.settle()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.user.on_mark(self.user.inlets[in_.in_index], mark)

    def on_complete(self, in_: Connection) -> None:
        inlet = self.user.inlets[in_.in_index]
        inlet.state = CLOSED
        reader = self._stop_reading(inlet)
        if reader is not None and reader[1] is not None:
            reader[1]()
        self.user.on_upstream_finish(inlet)
        self.settle()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        inlet = self.user.inlets[in_.in_index]
        inlet.state = CLOSED
        self._stop_reading(inlet)
        self.user.on_upstream_failure(inlet, error)
        self.settle()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        outlet = self.user.outlets[out.out_index]
        outlet.pulled = False
        outlet.buffer.clear()
        self.stop_emitting(outlet)
        self.user.on_downstream_finish(outlet, cause)
        self.settle()

    def on_timer(self, key: object) -> None:
        self.user.on_timer(key)
        self.settle()

    def on_stop(self) -> None:
        if self.actor is not None:
            self.actor.stop()
        self.user.post_stop()

    def fail_stage(self, error: BaseException) -> None:
        if self.started:
            for outlet in self.user.outlets:
                self.stop_emitting(outlet)
            self.flush()
            for outlet in self.user.outlets:
                outlet.pulled = False
            for inlet in self.user.inlets:
                inlet.state = CLOSED
            self.end_slice()
        super().fail_stage(error)

    def finish(self) -> None:
        """All ports have been closed by complete_stage."""
        self._finish()

    def set_keep_going(self, on: bool) -> None:
        """See GraphStageLogic.keep_going."""
        self.keep_going = on
        if not on and self._open_ports <= 0:
            self.interpreter.ended(self)

    # ── elements in ───────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, inlet: Inlet) -> None:
        """State the demand of a pulled inlet."""
        connection = inlet.connection
        n = self.user.prefetch
        if n is None:
            n = 1
            for out in self.outlets:
                if out.asked > n:
                    n = out.asked
            if len(self.inlets) > 1:
                n = -(-n // len(self.inlets))
            window = self._pace.window
            if n > window:
                n = window
        due = connection.due
        connection.want(n if due * 2 <= n else due)

    def _feed(self, inlet: Inlet) -> None:
        """Push elements of the chunk as long as the stage pulls."""
        connection = inlet.connection
        pace = self._pace
        most = max((out.asked for out in self.outlets), default=pace.limit)  # demand bounds what a slice can use
        feed = pace.take(connection, max(1, most))
        n = feed.__length_hint__()
        outlets = self.user.outlets
        stop = self.interpreter.stop_slice
        self.feeding = True
        try:
            if len(outlets) != 1:
                self._run_many(inlet, outlets, feed, stop)
            else:
                out = outlets[0]
                if out.passive:
                    room = out.connection.asked - len(out.buffer) - out.pulled  # pulls that may still be granted
                    self._run_passive(inlet, out, feed if room >= n else itertools.islice(feed, max(0, room)), stop)
                if not stop:
                    self._run(inlet, out, feed, stop)
        except BaseException as error:
            blame(error, self.name, pace.element)
            raise
        finally:
            self.feeding = False
            if inlet.state == FED:
                inlet.state = RESTING
            pace.give_back(connection)

    def _run_passive(self, inlet: Inlet, out: Outlet, feed: Iterable[Any], stop: list[int]) -> None:
        """The loop for an outlet that only pulls the inlet: each element takes at most one of the pulls that may be granted."""
        handler = inlet.handler
        for element in feed:
            inlet.element = element
            inlet.state = FED
            handler(inlet)
            if stop:
                return
            if out.pulled:
                if inlet.state != PULLED:
                    return  # the stage has neither pushed nor pulled: it waits for another event
            elif not inlet.state and out.passive:
                out.pulled = True  # another pull is granted, and `on_pull` would only pull the inlet
                inlet.state = PULLED
            else:
                return

    def _run(self, inlet: Inlet, out: Outlet, feed: Iterable[Any], stop: list[int]) -> None:
        """The loop for any outlet."""
        self._offer(out)
        if inlet.state != PULLED:
            return
        for element in feed:
            inlet.element = element
            inlet.state = FED
            handler = inlet.handler
            handler(inlet)
            if stop:
                return
            self._offer(out)
            if inlet.state != PULLED:
                return

    def _run_many(self, inlet: Inlet, outlets: list[Outlet], feed: Any, stop: list[int]) -> None:
        for element in feed:
            inlet.element = element
            inlet.state = FED
            handler = inlet.handler
            handler(inlet)
            for outlet in outlets:
                self._offer(outlet)
            if inlet.state != PULLED or stop:
                return

    def end_slice(self) -> None:
        """A port was closed: let the loop end after the current element."""
        if self.feeding:
            self.interpreter.stop_slice.append(0)

    # ── elements out ──────────────────────────────────────────────────────────────────────────────────────────────

    def _offer(self, outlet: Outlet) -> None:
        """Call the handler of an outlet as long as downstream has demand: the stage's own, or the one that `emit` put in its place."""
        connection = outlet.connection
        while (
            not outlet.pulled
            and connection.asked > len(outlet.buffer)
            and connection.terminal is None
            and connection.cause is None
        ):
            outlet.pulled = True
            outlet.handler(outlet)

    def flush(self) -> None:
        """Push the collected elements as one chunk per outlet."""
        for outlet in self.user.outlets:
            if outlet.buffer:
                buffer = outlet.buffer
                outlet.buffer = []
                outlet.connection.push(buffer)

    def settle(self) -> None:
        """After the handlers: grant pulls for the demand that is left, push the collected elements, ask for more."""
        if self.feeding:
            return
        emitting = False
        for outlet in self.user.outlets:
            if not outlet.pulled:
                self._offer(outlet)
            if outlet.emitting:
                emitting = True
        self.flush()
        if emitting is not self._holding:
            self._holding = emitting
            for connection in self.inlets:
                if emitting:
                    connection.hold()  # elements, marks and completion wait until everything emitted has been pushed
                else:
                    connection.release()
        for inlet in self.user.inlets:
            if inlet.state == PULLED:
                self.ask(inlet)

    # ── emit and read: their handlers replace the stage's for a while ─────────────────────────────────────────────

    def start_emitting(self, outlet: Outlet) -> None:
        """From now on pulls are answered with the elements given to `emit`."""
        if not outlet.emitting:
            outlet.stage_handler = (outlet.handler, outlet.passive)
            outlet.handler = self._emit_next
            outlet.passive = False

    def stop_emitting(self, outlet: Outlet) -> None:
        """Drop the elements that have not been emitted."""
        if outlet.emitting:
            outlet.emitting.clear()
            outlet.handler, outlet.passive = outlet.stage_handler

    def _emit_next(self, outlet: Outlet) -> None:
        emitting, buffer = outlet.emitting, outlet.buffer
        room = outlet.connection.asked - len(buffer)
        outlet.pulled = False
        and_then: Callable[[], None] | None = None
        while emitting and room and and_then is None:
            element, and_then = emitting.popleft()
            buffer.append(element)
            room -= 1
        if not emitting:
            outlet.handler, outlet.passive = outlet.stage_handler
        if and_then is not None:
            and_then()
        if outlet.finishing and not emitting:
            self.flush()
            outlet.connection.complete()
            self.end_slice()
            if all(out.out_closed for out in self.outlets) and all(i.state == CLOSED for i in self.user.inlets):
                self.keep_going = False
                self._finish()

    def start_reading(self, inlet: Inlet, reader: Reader) -> None:
        """Give the next element, or the end of the port, to the reader."""
        if inlet.reader is None:
            inlet.read_handler = inlet.handler
            inlet.handler = self._read_next
        inlet.reader = reader

    def _stop_reading(self, inlet: Inlet) -> Reader | None:
        reader, inlet.reader = inlet.reader, None
        if reader is not None:
            inlet.handler = inlet.read_handler
        return reader

    def _read_next(self, inlet: Inlet) -> None:
        reader = self._stop_reading(inlet)
        assert reader is not None
        element, inlet.element = inlet.element, EMPTY
        reader[0](element)

    def snapshot_state(self) -> str:
        held = sum(len(outlet.emitting) for outlet in self.user.outlets)
        return f"emitting {held}" if held else ""
