"""The processor: reads frames from its connections, has them served, and sends the answers.

Owner: the data plane. A round of a connection receives once and serves the complete frames. Answers are sent after all ready
connections were served, or sixteen of them. All answers of a connection go in one call, and the calls follow each other
directly: the first one wakes the client, the others find it awake. With two hundred connections to one client, this saves a
third of the kernel's time per request.

A mute connection is not read. epoll is changed only when data arrives for it, because most mute times end earlier."""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.network.admission import Admission
from streamactors.broker.network.buffers import BufferPool
from streamactors.broker.network.connection import InService, Mute, ServerConnection
from streamactors.broker.network.frame_reader import BadFrame, FrameReader, OutOfBuffers
from streamactors.broker.network.limits import SEND_ABOVE, Limits
from streamactors.broker.network.listener import Listener
from streamactors.broker.network.other_protocols import NonKafkaClients, recognise
from streamactors.broker.network.output import RegionTooShort
from streamactors.broker.network.tls.tls_handshakes import TlsHandshakes
from streamactors.broker.security.principal import principal_of
from streamactors.broker.security.sasl.mechanism import MAX_TOKEN_BYTES
from streamactors.gauges import Gauge
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.network")

Serve = Callable[[ServerConnection, memoryview], None]

_SCRATCH_BYTES: Final = 128 << 10
_SENT_TOGETHER: Final = 16  # connections
_SPARED_MS: Final = 1_000
_SHORTEST_SWEEP_MS: Final = 100
_LONGEST_SWEEP_MS: Final = 15_000


class Processor:
    """Owns connections. `serve(connection, frame)` must call `connection.begin` with a request or close the connection.
    The frame is valid until `serve` returns."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits, serve: Serve) -> None:
        self.limits = limits
        self.connections: dict[int, ServerConnection] = {}
        self.max_in_flight = limits.max_in_flight
        self.max_in_flight_bytes = limits.max_in_flight_bytes
        self.in_flight_bytes = 0
        self.pool = BufferPool(limits.max_receive_bytes)
        most_received = 2 * limits.max_receive_bytes + limits.max_request_bytes + _SCRATCH_BYTES
        self._received = Gauge(f"{dispatcher.name}: partly received requests", most_received, "bytes")
        self._unread = Gauge(
            f"{dispatcher.name}: answers of one connection that its client has not read",
            limits.max_output_bytes,
            "bytes",
        )
        self.non_kafka_clients = NonKafkaClients(dispatcher.clock.now_ms)
        self.handshakes = TlsHandshakes(dispatcher, self.non_kafka_clients, self._serve_new)
        self._dispatcher = dispatcher
        self._serve = serve
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._now_ms = dispatcher.clock.now_ms
        self.call_later = dispatcher.call_later
        self._admission = Admission(dispatcher, limits, self.handshakes)
        self.rates = self._admission.rates
        self._ids = 0
        self._with_output: dict[int, ServerConnection] = {}
        self._flush_scheduled = False
        self._in_round = False
        self._waiting_for_bytes: deque[ServerConnection] = deque()
        self._waiting_for_buffers: deque[ServerConnection] = deque()
        self._sweep: Timer | None = None

    def start(self) -> None:
        """Start the periodic check for idle connections."""
        interval_ms = min(self.limits.max_idle_ms / 4, self.limits.stalled_frame_ms / 4, _LONGEST_SWEEP_MS)
        self._sweep = self._dispatcher.call_later(max(interval_ms, _SHORTEST_SWEEP_MS), self._close_idle)

    def stop(self) -> None:
        """Close every connection."""
        self._admission.is_over = True
        if self._sweep is not None:
            self._sweep.cancel()
        self.handshakes.stop()
        for connection in list(self.connections.values()):
            connection.close("")

    # ---- connections ----

    def adopt(self, sock: socket.socket, listener: Listener) -> None:
        """Serve an accepted connection if it is admitted, after its TLS handshake if the listener has one."""
        if not self._admission.admit(sock, self.limits):
            return
        tls = listener.protection.tls
        if tls is None:
            self._serve_new(sock, listener)
        else:
            self.handshakes.begin(sock, listener, tls)

    def _serve_new(self, sock: socket.socket, listener: Listener) -> None:
        try:
            reader = FrameReader(self._scratch, self.pool, self.limits.max_request_bytes)
            connection = ServerConnection(sock, self._ids + 1, listener, self, reader, self._now_ms())
            if connection.login is not None:
                reader.max_bytes = min(reader.max_bytes, MAX_TOKEN_BYTES)
            else:
                connection.principal = principal_of(sock, listener.protection)
        except InvalidSetting as error:
            log_limited(_log, logging.WARNING, str(listener), "a connection to %s closed: %s", listener, error)
            sock.close()
            return
        except OSError as error:
            _log.debug("a connection ended before it began: %s", error)
            sock.close()
            return
        self._ids += 1
        self.connections[connection.id] = connection
        self._admission.entered(connection.host)
        self._dispatcher.register(sock, partial(self._on_readable, connection), on_broken=partial(connection.close, ""))
        if connection.holds_input():
            self._dispatcher.execute(partial(self._on_readable, connection))

    def forget(self, connection: ServerConnection) -> None:
        """Remove a connection that is closing."""
        del self.connections[connection.id]
        self._with_output.pop(connection.id, None)
        self._admission.left(connection.host)
        try:
            self._dispatcher.unregister(connection.socket)
        except KeyError:
            pass  # The dispatcher has already removed the broken socket.
        if self._waiting_for_buffers:
            self._wake_for_buffers()
        if self._waiting_for_bytes:
            self._dispatcher.execute(self._let_in)

    # ---- reading ----

    def _on_readable(self, connection: ServerConnection) -> int:
        """Receive once and serve the complete frames. Returns the number of bytes received; 0 also for a change of the registration."""
        if connection.closed:
            return 0
        if connection.muted:
            self._register(connection)
            return 0
        try:
            received = connection.reader.receive(connection.receive_into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OutOfBuffers:
            self._wait_for_buffer(connection)
            return 0
        except BadFrame as error:
            self._refuse_frame(connection, error)
            return 0
        except OSError as error:
            _log.debug("connection of %s ended: %s", connection.peer, error)
            connection.close("")
            return 0
        if received == 0:
            self._end_of_stream(connection)
            return 0
        connection.last_active_ms = self._now_ms()
        self._serve_frames(connection)
        if connection.listener.protection.tls is not None and not connection.closed and connection.holds_input():
            self._dispatcher.execute(partial(self._on_readable, connection))
        return received

    def _serve_frames(self, connection: ServerConnection) -> None:
        """Serve the complete frames until the connection is mute or needs more bytes."""
        outermost, self._in_round = not self._in_round, True
        reader = connection.reader
        try:
            while (frame := reader.next_frame()) is not None:
                self._serve(connection, frame)
                if connection.output.size > SEND_ABOVE:
                    # A client that does not read its answers makes the connection mute after one large answer.
                    self._send(connection)
                if connection.muted or connection.closed:
                    break
        except BadFrame as error:
            self._refuse_frame(connection, error)
        except Exception as error:  # noqa: BLE001 - logged; other connections are still served
            _log.exception("connection of %s: serving a request failed", connection.peer)
            connection.close(f"serving a request failed: {error}")
        finally:
            if not connection.closed and reader.park():
                self._after_parking(connection)
            if outermost:
                self._in_round = False
                if len(self._with_output) >= _SENT_TOGETHER:
                    self._flush()
                elif self._with_output:
                    self._flush_soon()

    def _after_parking(self, connection: ServerConnection) -> None:
        """Enforce the budget after a change of buffers, and wake connections that wait for a buffer."""
        self._received.reached(self.pool.in_use)
        while self.pool.overdrawn and self._evict(connection):
            pass
        if self._waiting_for_buffers:
            self._wake_for_buffers()

    def _evict(self, but: ServerConnection) -> bool:
        """Close the connection whose partly received request got no byte for the longest time. Active senders are spared
        unless twice the budget is in use."""
        holders = (each for each in self.connections.values() if each.reader.holds_buffer and each is not but)
        victim = min(holders, key=lambda each: each.last_active_ms, default=None)
        if victim is None:
            return False
        silent_ms = self._now_ms() - victim.last_active_ms
        if silent_ms < _SPARED_MS and self.pool.in_use < 2 * self.pool.budget:
            return False
        victim.close("its partly received request holds memory that other connections need")
        return True

    def _wait_for_buffer(self, connection: ServerConnection) -> None:
        try:
            if connection.listener.protection.tls is None and connection.socket.recv(1, socket.MSG_PEEK) == b"":
                self._end_of_stream(connection)
                return
        except OSError:
            connection.close("")
            return
        connection.mute(Mute.MEMORY)
        self._waiting_for_buffers.append(connection)
        self._register(connection)

    def _end_of_stream(self, connection: ServerConnection) -> None:
        pending = connection.reader.pending
        connection.close(f"it ended after {pending} bytes of a request" if pending else "")

    def _refuse_frame(self, connection: ServerConnection, error: BadFrame) -> None:
        foreign = recognise(error.head)
        if foreign is None:
            connection.close_after_answers(f"{error}; {_limit(connection)}")
        else:
            self.non_kafka_clients.report(connection.host, connection.peer, f"closed: {foreign}")
            connection.close_after_answers("")

    def resume(self, connection: ServerConnection) -> None:
        """Read again from a connection that is no longer mute."""
        self._register(connection)
        if connection.reader.pending:
            self._dispatcher.execute(lambda: self._serve_pending(connection))
        if connection.holds_input():
            self._dispatcher.execute(partial(self._on_readable, connection))

    def _serve_pending(self, connection: ServerConnection) -> None:
        if not connection.closed and not connection.muted:
            self._serve_frames(connection)

    # ---- requests in service ----

    def limit_reached(self, connection: ServerConnection, request: InService) -> None:
        """Mute a connection whose new request reached a limit of the connection or of the processor."""
        if len(connection.in_flight) >= self.max_in_flight:
            connection.muted |= Mute.IN_FLIGHT
        if request.size and self.in_flight_bytes > self.max_in_flight_bytes and not connection.muted & Mute.QUEUE_FULL:
            connection.muted |= Mute.QUEUE_FULL
            self._waiting_for_bytes.append(connection)

    def bytes_freed(self, size: int) -> None:
        """Requests in service hold this number of bytes less: connections that wait for the byte limit are served soon."""
        self.in_flight_bytes -= size
        if self._waiting_for_bytes and self.in_flight_bytes <= self.max_in_flight_bytes:
            self._dispatcher.execute(self._let_in)

    def _let_in(self) -> None:
        """Serve connections that wait for the byte limit, one at a time: each may use up the freed bytes."""
        waiting = self._waiting_for_bytes
        while waiting and self.in_flight_bytes <= self.max_in_flight_bytes:
            connection = waiting.popleft()
            connection.muted &= ~Mute.QUEUE_FULL
            self._register(connection)
            self._serve_pending(connection)
            if connection.holds_input():
                self._dispatcher.execute(partial(self._on_readable, connection))

    def _wake_for_buffers(self) -> None:
        self._dispatcher.execute(self._give_buffers)

    def _give_buffers(self) -> None:
        """Receive from connections that wait for a buffer, until one has to wait again."""
        waiting = self._waiting_for_buffers
        for _ in range(len(waiting)):
            connection = waiting.popleft()
            connection.muted &= ~Mute.MEMORY
            self._on_readable(connection)
            if connection.muted & Mute.MEMORY:
                waiting.rotate(1)  # `_wait_for_buffer` put it at the end; it keeps its place at the front.
                return
            self._register(connection)

    # ---- writing ----

    def has_output(self, connection: ServerConnection) -> None:
        """Answers of the connection are ready: send its output soon."""
        self._with_output[connection.id] = connection
        if self._waiting_for_bytes and self.in_flight_bytes <= self.max_in_flight_bytes:
            self._dispatcher.execute(self._let_in)
        if not self._in_round:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._dispatcher.execute(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        waiting = self._with_output
        while waiting:
            self._send(waiting.popitem()[1])

    def _send(self, connection: ServerConnection) -> int:
        """Send what the socket takes of the answers. Returns the number of bytes sent."""
        if connection.closed:
            return 0
        output = connection.output
        waiting = output.size
        try:
            drained = output.flush()
        except RegionTooShort as error:
            connection.close(str(error))
            return 0
        except OSError as error:
            _log.debug("connection of %s ended: %s", connection.peer, error)
            connection.close("")
            return 0
        sent = waiting - output.size
        if not drained:
            self._unread.reached(output.size)
            connection.muted |= Mute.OUTPUT
            self._register(connection)
        elif connection.muted & (Mute.OUTPUT | Mute.CLOSING):
            if connection.muted & Mute.CLOSING and not connection.in_flight:
                connection.close("")
                return sent
            connection.last_active_ms = self._now_ms()
            connection.unmute(Mute.OUTPUT)
            self._register(connection)
        return sent

    def _register(self, connection: ServerConnection) -> None:
        """Register the connection for the events that it waits for: room in the socket only while the socket is full. Output that has
        not been tried yet is sent by `_flush`; a socket with room would be reported in every round."""
        wanted = (not connection.muted, bool(connection.muted & Mute.OUTPUT))
        if wanted != connection.registered and not connection.closed:
            connection.registered = wanted
            self._dispatcher.modify(
                connection.socket,
                partial(self._on_readable, connection) if wanted[0] else None,
                partial(self._send, connection) if wanted[1] else None,
            )

    # ---- idle connections ----

    def _close_idle(self) -> None:
        now_ms = self._now_ms()
        limits = self.limits
        self.handshakes.close_stalled(limits.stalled_frame_ms)
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.last_active_ms
            if connection.in_flight or connection.muted & ~(Mute.OUTPUT | Mute.MEMORY | Mute.CLOSING):
                if connection.muted and connection.left_by_peer:
                    connection.close("")  # A mute connection does not report the end of its stream.
                continue  # It waits for the broker.
            if silent_ms > limits.max_idle_ms:
                connection.close("" if not connection.output else "it does not read its answers")
            elif connection.reader.pending and silent_ms > limits.stalled_frame_ms:
                connection.close(f"a partly received request got no byte for {silent_ms / 1000:.0f} s")
        self.start()


def _limit(connection: ServerConnection) -> str:
    """Return the limit of a request's size, as a log line has it."""
    largest = connection.reader.max_bytes
    if connection.login is not None and connection.login.principal is None:
        return f"before the login {largest} bytes are allowed"
    return f"socket.request.max.bytes is {largest}"
