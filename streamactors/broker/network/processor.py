"""The processor: reads frames from its connections, has them served, and sends the answers.

Owner: the data plane. A round of a connection is: receive once, serve what is complete. Answers leave when the
connections that were ready have been served, or sixteen of them: all answers of a connection in one call, and the calls
one after the other, because the first one wakes the client and the others find it awake. With two hundred connections
to one client that is a third of what the kernel takes for a request.

A connection is left unread while it has a reason to be mute; epoll is told only when data really waits, because most
such times are over before."""

from __future__ import annotations

import logging
import socket
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final

from streamactors.actors.dispatcher import Dispatcher
from streamactors.actors.timing_wheel import Timer
from streamactors.broker.network.buffers import BufferPool
from streamactors.broker.network.connection import Connection, Mute
from streamactors.broker.network.foreign import Foreigners, recognise
from streamactors.broker.network.frame_reader import BadFrame, FrameReader, OutOfBuffers
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.listener import Listener
from streamactors.broker.network.output import RegionTooShort

_log = logging.getLogger("streamactors.broker.network")

Serve = Callable[[Connection, memoryview], None]

_SCRATCH_BYTES: Final = 128 << 10
_SEND_ABOVE: Final = 64 << 10
_SENT_TOGETHER: Final = 16  # connections
_SPARED_MS: Final = 1_000
_LONGEST_SWEEP_MS: Final = 15_000


class Processor:
    """Owns connections. `serve(connection, frame)` must call `connection.begin` with a request or close the connection;
    the frame is valid until it returns."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits, serve: Serve) -> None:
        self.limits = limits
        self.connections: dict[int, Connection] = {}
        self.max_in_flight = limits.max_in_flight
        self.max_in_flight_bytes = limits.max_in_flight_bytes
        self.in_flight_bytes = 0
        self.pool = BufferPool(limits.max_receive_bytes)
        self.foreigners = Foreigners(dispatcher.clock.now_ms)
        self._dispatcher = dispatcher
        self._serve = serve
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._now_ms = dispatcher.clock.now_ms
        self._per_host: Counter[str] = Counter()
        self._ids = 0
        self._with_output: dict[int, Connection] = {}
        self._flush_scheduled = False
        self._in_round = False
        self._waiting_for_bytes: deque[Connection] = deque()
        self._waiting_for_buffers: deque[Connection] = deque()
        self._sweep: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to look for idle connections."""
        interval_ms = min(self.limits.max_idle_ms, self.limits.stalled_frame_ms) / 4
        self._sweep = self._dispatcher.call_later(min(interval_ms, _LONGEST_SWEEP_MS), self._close_idle)

    def stop(self) -> None:
        """Close every connection."""
        self._stopped = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections.values()):
            connection.close("")

    # ---- connections ----

    def adopt(self, sock: socket.socket, listener: Listener) -> None:
        """Serve an accepted connection, or close it if there are too many."""
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            reader = FrameReader(self._scratch, self.pool, self.limits.max_request_bytes)
            connection = Connection(sock, self._ids + 1, listener, self, reader, self._now_ms())
        except OSError as error:
            _log.debug("a connection ended before it began: %s", error)
            sock.close()
            return
        refusal = self._refusal(connection.host)
        if refusal is not None:
            _log.warning("connection of %s refused: %s", connection.peer, refusal)
            sock.close()
            return
        self._ids += 1
        self.connections[connection.id] = connection
        self._per_host[connection.host] += 1
        self._dispatcher.register(sock, partial(self._on_readable, connection))

    def forget(self, connection: Connection) -> None:
        """The connection is closing."""
        del self.connections[connection.id]
        self._with_output.pop(connection.id, None)
        self._per_host[connection.host] -= 1
        if not self._per_host[connection.host]:
            del self._per_host[connection.host]
        try:
            self._dispatcher.unregister(connection.socket)
        except KeyError:
            pass  # the dispatcher found it broken before we did
        if self._waiting_for_buffers:
            self._wake_for_buffers()
        if self._waiting_for_bytes:
            self._dispatcher.execute(self._let_in)

    def _refusal(self, host: str) -> str | None:
        limits = self.limits
        if self._stopped:
            return "the broker is stopping"
        if len(self.connections) >= limits.max_connections:
            return f"there are {len(self.connections)} already; raise max.connections"
        if self._per_host[host] >= limits.max_connections_per_ip:
            return f"there are {self._per_host[host]} from this address already; raise max.connections.per.ip"
        return None

    # ---- reading ----

    def _on_readable(self, connection: Connection) -> None:
        if connection.closed:
            return
        if connection.muted:
            self._register(connection)
            return
        try:
            received = connection.reader.receive(connection.socket.recv_into)
        except (BlockingIOError, InterruptedError):
            return
        except OutOfBuffers:
            self._wait_for_buffer(connection)
            return
        except BadFrame as error:
            self._refuse_frame(connection, error)
            return
        except OSError as error:
            _log.debug("connection of %s ended: %s", connection.peer, error)
            connection.close("")
            return
        if received == 0:
            self._end_of_stream(connection)
            return
        connection.last_active_ms = self._now_ms()
        self._serve_frames(connection)

    def _serve_frames(self, connection: Connection) -> None:
        """Serve what is complete, until the connection is mute or needs more bytes."""
        outermost, self._in_round = not self._in_round, True
        reader = connection.reader
        try:
            while (frame := reader.next_frame()) is not None:
                self._serve(connection, frame)
                if connection.output.size > _SEND_ABOVE:
                    # Whoever asks much and reads nothing is not served further: one answer is held for him, not sixty.
                    self._send(connection)
                if connection.muted or connection.closed:
                    break
        except BadFrame as error:
            self._refuse_frame(connection, error)
        except Exception as error:  # noqa: BLE001 - logged; the others are served on
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

    def _after_parking(self, connection: Connection) -> None:
        """Buffers were taken or given back: see to it that there are enough, and who waits for one."""
        while self.pool.overdrawn and self._evict(connection):
            pass
        if self._waiting_for_buffers:
            self._wake_for_buffers()

    def _evict(self, but: Connection) -> bool:
        """Close whoever has left half a request lying for longest. Who is just sending is spared while that is
        bearable."""
        holders = (each for each in self.connections.values() if each.reader.holds_buffer and each is not but)
        victim = min(holders, key=lambda each: each.last_active_ms, default=None)
        if victim is None:
            return False
        silent_ms = self._now_ms() - victim.last_active_ms
        if silent_ms < _SPARED_MS and self.pool.in_use < 2 * self.pool.budget:
            return False
        victim.close("its half-received request holds memory that others need")
        return True

    def _wait_for_buffer(self, connection: Connection) -> None:
        try:
            if connection.socket.recv(1, socket.MSG_PEEK) == b"":
                self._end_of_stream(connection)
                return
        except OSError:
            connection.close("")
            return
        connection.mute(Mute.MEMORY)
        self._waiting_for_buffers.append(connection)
        self._register(connection)

    def _end_of_stream(self, connection: Connection) -> None:
        pending = connection.reader.pending
        connection.close(f"it ended {pending} bytes into a request" if pending else "")

    def _refuse_frame(self, connection: Connection, error: BadFrame) -> None:
        foreign = recognise(error.head)
        if foreign is None:
            connection.close_after_answers(f"{error}; socket.request.max.bytes is {self.limits.max_request_bytes}")
        else:
            self.foreigners.report(connection, f"closed: {foreign}")
            connection.close_after_answers("")

    def resume(self, connection: Connection) -> None:
        """No reason to be mute is left."""
        self._register(connection)
        if connection.reader.pending:
            self._dispatcher.execute(lambda: self._serve_pending(connection))

    def _serve_pending(self, connection: Connection) -> None:
        if not connection.closed and not connection.muted:
            self._serve_frames(connection)

    # ---- requests in service ----

    def limit_reached(self, connection: Connection) -> None:
        """A request more has made the connection, or all of them together, reach a limit."""
        if len(connection.in_flight) >= self.max_in_flight:
            connection.muted |= Mute.IN_FLIGHT
        if self.in_flight_bytes > self.max_in_flight_bytes and not connection.muted & Mute.QUEUE_FULL:
            connection.muted |= Mute.QUEUE_FULL
            self._waiting_for_bytes.append(connection)

    def _let_in(self) -> None:
        """Serve who waits because of the bytes in service, one after the other: each may use up what was freed."""
        waiting = self._waiting_for_bytes
        while waiting and self.in_flight_bytes <= self.max_in_flight_bytes:
            connection = waiting.popleft()
            connection.muted &= ~Mute.QUEUE_FULL
            self._register(connection)
            self._serve_pending(connection)

    def _wake_for_buffers(self) -> None:
        self._dispatcher.execute(self._give_buffers)

    def _give_buffers(self) -> None:
        """Receive from who waits for a buffer, until somebody has to wait again."""
        waiting = self._waiting_for_buffers
        for _ in range(len(waiting)):
            connection = waiting.popleft()
            connection.muted &= ~Mute.MEMORY
            self._on_readable(connection)
            if connection.muted & Mute.MEMORY:
                waiting.rotate(1)  # it was put at the end; its turn is still the next
                return
            self._register(connection)

    # ---- writing ----

    def has_output(self, connection: Connection) -> None:
        """Requests of the connection have left: send what it has to send, soon."""
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

    def _send(self, connection: Connection) -> None:
        if connection.closed:
            return
        try:
            drained = connection.output.flush()
        except RegionTooShort as error:
            connection.close(str(error))
            return
        except OSError as error:
            _log.debug("connection of %s ended: %s", connection.peer, error)
            connection.close("")
            return
        if not drained:
            connection.muted |= Mute.OUTPUT
            self._register(connection)
        elif connection.muted & (Mute.OUTPUT | Mute.CLOSING):
            if connection.muted & Mute.CLOSING and not connection.in_flight:
                connection.close("")
                return
            connection.last_active_ms = self._now_ms()
            connection.unmute(Mute.OUTPUT)
            self._register(connection)

    def _register(self, connection: Connection) -> None:
        """Tell the selector what the connection waits for."""
        wanted = (not connection.muted, bool(connection.output))
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
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.last_active_ms
            if connection.in_flight or connection.muted & ~(Mute.OUTPUT | Mute.MEMORY | Mute.CLOSING):
                if connection.muted and connection.left_by_peer:
                    connection.close("")  # who is not read from cannot be heard to leave
                continue  # it waits for us
            if silent_ms > limits.max_idle_ms:
                connection.close("" if not connection.output else "it does not read its answers")
            elif connection.reader.pending and silent_ms > limits.stalled_frame_ms:
                connection.close(f"half a request, then nothing for {silent_ms / 1000:.0f} s")
        self.start()
