"""The two ends of a stream ref as stages: Sending (a sink) and Receiving (a source). Each either listens or connects."""

from __future__ import annotations

import secrets
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import NOT_USED, SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import blame
from streamactors.errors import AbruptTermination, ConnectionFailed, StreamRefError
from streamactors.gauges import Gauge
from streamactors.stages.checks import at_least, span_ms
from streamactors.stages.network.tcp import checked_tls
from streamactors.stages.stream_refs.link import Connecting, Link, Listening, Opener, Place
from streamactors.stages.stream_refs.wire import (
    BYE,
    CANCEL,
    COMPLETE,
    DEMAND,
    ELEMENTS,
    FAIL,
    TRACE,
    elements_of,
    frame,
    frames_of,
    why,
)
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.stages.stream_refs.traced import ReceivedContexts

WINDOW: Final = 1_024


class RefListener:
    """How an end listens: on `host`, for one other end."""

    def __init__(
        self, operator: str, role: str, host: str, advertised_host: str | None, tls: Any, subscription_timeout: Duration
    ) -> None:
        self.operator = operator
        self.role = role
        self.host = host
        self.advertised_host = advertised_host or host
        self.tls: ssl.SSLContext | None = checked_tls(operator, tls)
        self.timeout_s = span_ms(operator, "subscription_timeout", subscription_timeout) / 1000

    def listen(self) -> tuple[Listening, Place]:
        """Return the listening end and where it is. Raises ConnectionFailed when the host is not this machine's."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.bind((self.host, 0))
            listening.listen(16)
        except OSError as error:
            listening.close()
            raise ConnectionFailed(
                f"{self.operator}: cannot listen on {self.host}: {error.strerror or error}"
            ) from None
        at = Place(self.role, self.advertised_host, listening.getsockname()[1], secrets.token_bytes(32))
        return Listening(listening, at, self.tls, self.timeout_s), at


class Connector:
    """How an end connects to a ref."""

    def __init__(self, operator: str, at: Place, tls: Any) -> None:
        self.operator = operator
        self.place = at
        self.tls = checked_tls(operator, tls)


def _opener(how: RefListener | Connector, future: StreamFuture[Any]) -> Opener:
    """Return what opens the connection; where it listens, `future` is completed with the place."""
    if isinstance(how, Connector):
        return Connecting(how.place, how.tls)
    listening, at = how.listen()
    future.try_complete(at)
    return listening


class Sending(GraphStage):
    """Send the elements to the other end of a stream ref, as it asks for them.

    Backpressures when: the other end asks for nothing, or has not connected yet.
    Completes when: the other end has taken everything.   Cancels when: the other end cancels.
    Fails when: the other end fails, dies or does not connect in time (StreamRefError, StreamTimeout); or an element cannot be sent.
    Marks: done when the other end has taken everything.
    """

    shape = SINK
    handling = EXACT

    def __init__(self, how: RefListener | Connector) -> None:
        self.how = how
        self.name = how.operator

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _SendingLogic(self)
        return logic, logic.place if isinstance(self.how, RefListener) else logic.future


class _SendingLogic(SinkLogic):
    """`keep_going` holds the stage after its upstream has completed, until the other end has taken everything."""

    stage: Sending
    keep_going = True
    done_at_end = True

    def __init__(self, stage: Sending) -> None:
        super().__init__(stage)
        self.place: StreamFuture[Place] = StreamFuture(f"the place of {stage.name}")
        self._link: Link | None = None
        self._open = False
        self._asked = 0  # elements asked for since the start
        self._sent = 0
        self._writing = False
        self._completing = False
        self._told_end = False
        self._farewell = frame(FAIL, "its stream was stopped before it had ended")

    def on_start(self) -> None:
        self._link = Link(self, _opener(self.stage.how, self.place), self._opened, self._frame, self._lost)
        self._link.start()

    def _opened(self) -> None:
        self._open = True
        self._move_on()

    def _move_on(self) -> None:
        if not self._open or self._writing:
            return
        if self._completing:
            if not self._told_end:
                self._told_end = True
                self._link.send(frame(COMPLETE))  # type: ignore[union-attr]
        elif self._asked > self._sent:
            self.in_.want(min(self._asked - self._sent, MAX_ASKED))

    def on_push(self, in_: Connection) -> None:
        if self._writing:
            return
        chunk = in_.grab(self._asked - self._sent)
        if not chunk:
            return
        try:
            data = b"".join(frames_of(chunk))
            context = None if switch.installed is None else switch.installed.told_current()
            if context is not None:
                data = frame(TRACE, *context) + data
        except Exception as error:  # noqa: BLE001  # an element that the codec refuses, or that is too long
            self.fail_stage(blame(error, self.name))
            return
        self._sent += len(chunk)
        self._writing = True
        self._link.send(data, self._written)  # type: ignore[union-attr]

    def _written(self) -> None:
        self._writing = False
        self._move_on()

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self._move_on()

    def _frame(self, found: list[Any]) -> None:
        kind = found[0]
        if kind == DEMAND and found[1] > self._asked:
            self._asked = found[1]
            self._move_on()
        elif kind == BYE and self._completing:
            self.succeed(None)
        elif kind == CANCEL:
            if found[1] is None:
                self.succeed(None)
            else:
                self.fail_stage(
                    blame(StreamRefError(f"the other end of stream ref {self._where} failed: {found[1]}"), self.name)
                )
        elif kind != DEMAND:
            self.fail_stage(StreamRefError(f"stream ref {self._where}: the receiving end sent a frame of kind {kind}"))

    def succeed(self, value: Any) -> None:
        self._farewell = b""
        super().succeed(value)

    @property
    def _where(self) -> str:
        return self._link.where if self._link is not None else ""

    def _lost(self, error: BaseException) -> None:
        self.fail_stage(blame(error, self.name))

    def fail_stage(self, error: BaseException) -> None:
        self._farewell = frame(FAIL, why(error))
        super().fail_stage(error)

    def on_stop(self) -> None:
        self.place.try_fail(self.failure or AbruptTermination(f"{self.name} was stopped before it listened"))
        if self._link is not None:
            self._link.close(self._farewell)
        super().on_stop()

    def snapshot_state(self) -> str:
        return f"{self._asked - self._sent} asked for by the other end" if self._open else "waits for the other end"


class Receiving(GraphStage):
    """Emit the elements that the other end of a stream ref sends.

    Emits when: there is demand and elements have come.   Completes when: the other end does, and its elements have been emitted.
    Fails when: the other end fails, dies, or does not connect in time (StreamRefError, StreamTimeout, ConnectionFailed).
    Cancels when: downstream does; the other end is cancelled.
    """

    shape = SOURCE
    traits = StageTraits(sampled=True)

    def __init__(self, how: RefListener | Connector, window: int = WINDOW) -> None:
        self.how = how
        self.name = how.operator
        self.window = at_least(how.operator, "window", window, 1)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ReceivingLogic(self)
        return logic, logic.place if isinstance(self.how, RefListener) else NOT_USED


class _ReceivingLogic(SourceLogic):
    stage: Receiving

    def __init__(self, stage: Receiving) -> None:
        super().__init__(stage)
        self.place: StreamFuture[Place] = StreamFuture(f"the place of {stage.name}")
        self._link: Link | None = None
        self._open = False
        self._chunks: deque[list[Any]] = deque()
        self._gauge = Gauge(f"{stage.name}: elements of the other end", stage.window)
        self._asked = 0  # elements asked for since the start
        self._came = 0
        self._pushed = 0
        self._completing = False
        self._farewell = frame(CANCEL, None)
        self._contexts: ReceivedContexts | None = None  # in a traced run

    def on_start(self) -> None:
        run = self.interpreter.island.run
        source = run.source_id(self)
        if run.trace is not None and source is not None:
            from streamactors.stages.stream_refs.traced import ReceivedContexts

            self._contexts = ReceivedContexts(run.trace, source, self.name)
        self._link = Link(self, _opener(self.stage.how, self.place), self._opened, self._frame, self._lost)
        self._link.start()

    def _opened(self) -> None:
        self._open = True
        self._ask()

    def _ask(self) -> None:
        """Ask for as many elements as the window holds, when half of it is free."""
        target = self._pushed + self.stage.window
        if self._open and target - self._asked >= (self.stage.window + 1) // 2:
            self._asked = target
            self._link.send(frame(DEMAND, target))  # type: ignore[union-attr]

    def on_pull(self, out: Connection) -> None:
        contexts = self._contexts
        while self._chunks and out.asked:
            chunk = self._chunks.popleft()
            if contexts is not None:
                contexts.before(self._pushed, out)
            if len(chunk) > out.asked:
                self._chunks.appendleft(chunk[out.asked :])
                chunk = chunk[: out.asked]
            else:
                self._link.taken()  # type: ignore[union-attr]
            self._pushed += len(chunk)
            out.push(chunk)
            if contexts is not None:
                contexts.after(self._pushed, out)
        if self._completing:
            if not self._chunks:
                self._farewell = frame(BYE)
                self.complete_stage()
        else:
            self._ask()

    def _frame(self, found: list[Any]) -> None:
        kind = found[0]
        if kind == ELEMENTS:
            elements = elements_of(found[1])
            if self._contexts is not None:
                self._contexts.received(self._came, self._came + len(elements))
            self._came += len(elements)
            if self._came > self._asked:
                raise StreamRefError(f"stream ref {self._where}: the other end sent more elements than were asked for")
            self._chunks.append(elements)
            self._gauge.reached(self._came - self._pushed)
            self.on_pull(self.out)
        elif kind == TRACE:
            if self._contexts is not None:
                self._contexts.told(found[1], found[2])
        elif kind == COMPLETE:
            self._completing = True
            self.on_pull(self.out)
        elif kind == FAIL:
            self.fail_stage(
                blame(StreamRefError(f"the other end of stream ref {self._where} failed: {found[1]}"), self.name)
            )
        else:
            raise StreamRefError(f"stream ref {self._where}: the sending end sent a frame of kind {kind}")

    @property
    def _where(self) -> str:
        return self._link.where if self._link is not None else ""

    def _lost(self, error: BaseException) -> None:
        if not self._completing:
            self.fail_stage(blame(error, self.name))

    def fail_stage(self, error: BaseException) -> None:
        self._farewell = frame(CANCEL, why(error))
        super().fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._farewell = frame(CANCEL, why(cause))
        super().on_cancel(out, cause)

    def on_stop(self) -> None:
        self.place.try_fail(self.failure or AbruptTermination(f"{self.name} was stopped before it listened"))
        if self._link is not None:
            self._link.close(self._farewell)

    def snapshot_state(self) -> str:
        return f"{self._came - self._pushed} elements wait for demand" if self._open else "waits for the other end"
