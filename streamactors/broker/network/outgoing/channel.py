"""A connection to another node: requests go out in order, and each answer goes to its callback.

Owner: the thread of one dispatcher. Nothing blocks it. The connection is opened by the first request, which waits until TLS and the login are
done. A failure of any kind, also one request without an answer in time, ends the connection and every request on it; the next
request opens a new one. The owner decides whether and when to ask again."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors import __version__
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.ends import ends_of
from streamactors.broker.network.frame_reader import BadFrame, FrameReader, ReceiveInto
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.network.outgoing.channel_answer import (
    ChannelAnswer,
    ChannelBroken,
    ChannelClosed,
    ChannelRefused,
    OnFrame,
    Then,
    UnsupportedByPeer,
)
from streamactors.broker.network.outgoing.links import LINKS
from streamactors.broker.network.outgoing.opening import OPEN, Address, Entrance, Login, NotOpened, Opening
from streamactors.broker.network.output import Output
from streamactors.broker.protocol.api_keys import API_VERSIONS, api_name
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import request_frame, response_header_is_flexible
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.protocol.primitives import INT32, skip_tagged_fields
from streamactors.errors import StreamActorsError

_log = logging.getLogger("streamactors.broker.network")

MAX_ANSWER_BYTES: Final = 128 << 20
REQUEST_TIMEOUT_MS: Final = 30_000
_VERSIONS_VERSION: Final = 3
_RENEW_AFTER: Final = 0.85
"""A login is renewed after this part of its lifetime, as Apache Kafka's clients do."""


class _Pending(NamedTuple):
    on_frame: OnFrame
    timer: Timer


class _Waiting(NamedTuple):
    """A request that waits until the versions of the other node are known."""

    key: int
    version: int
    body: Mapping[str, Any]
    then: Then
    timeout_ms: float


class _Held(NamedTuple):
    """An encoded request that waits for the login to be renewed."""

    key: int
    version: int
    body: bytes
    on_frame: OnFrame
    timeout_ms: float


class Channel:
    """One connection. `peer_versions` is empty until the other node has sent the versions that it serves."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        address: Address,
        client_id: str,
        buffers: Buffers,
        *,
        asks_versions: bool = True,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        entrance: Entrance = OPEN,
    ) -> None:
        self.address: Final = address
        self.peer_versions: Mapping[int, tuple[int, int]] = {}
        self.peer_features: Mapping[str, int] = {}  # the finalized levels
        self._dispatcher = dispatcher
        self._client_id = client_id
        self._buffers = buffers
        self._asks_versions = asks_versions
        self._timeout_ms = timeout_ms
        self._entrance = entrance
        self._socket: socket.socket | None = None
        self._output: Output | None = None
        self._reader: FrameReader | None = None
        self._receive_into: ReceiveInto | None = None
        self._holds_input: Callable[[], bool]
        self._life = 0  # counts the connections: a late event of an earlier one is ignored
        self._let_in = False  # True when TLS and the login are done: requests may be sent
        self._renew_at_ms = 0.0  # when to log in again; 0 if the login does not expire
        self._registered = (False, False)
        self._correlation = 0
        self._pending: dict[int, _Pending] = {}
        self._held: list[_Held] = []
        self._unsent: list[bytes] = []
        self._before_versions: list[_Waiting] = []
        self._opening: Opening | None = None

    # --- requests ---

    def request(self, key: int, version: int, body: Mapping[str, Any], then: Then, timeout_ms: float = 0) -> None:
        """Send a request in `version`, or in the highest that the other node serves below it; `then` gets the answer."""
        if self._asks_versions and not self.peer_versions:
            self._before_versions.append(_Waiting(key, version, body, then, timeout_ms))
            if len(self._before_versions) == 1:
                self._ask_versions()
            return
        if self._asks_versions:
            low, high = self.peer_versions.get(key, (0, -1))
            if min(version, high) < low or high < 0:
                unsupported = UnsupportedByPeer(f"{self} serves no version of {api_name(key)} up to {version}")
                then(ChannelAnswer(error=unsupported))
                return
            version = min(version, high)
        flexible = response_header_is_flexible(key, version)

        def on_frame(frame: memoryview | ChannelBroken) -> None:
            if isinstance(frame, ChannelBroken):
                then(ChannelAnswer(error=frame))
                return
            try:
                value = decode_response(key, version, frame, skip_tagged_fields(frame, 4) if flexible else 4)
            except MalformedMessage as error:
                broken = ChannelBroken(f"{self}: a malformed answer to {api_name(key)}: {error}")
                then(ChannelAnswer(error=broken))
                self._end(broken)
                return
            then(ChannelAnswer(value))

        self.send(key, version, encode_request(key, version, body), on_frame, timeout_ms)

    def send(self, key: int, version: int, body: bytes, on_frame: OnFrame, timeout_ms: float = 0) -> None:
        """Send an encoded request; `on_frame` gets the frame of the answer, valid during the call, or the error."""
        if self._renew_at_ms and self._dispatcher.clock.now_ms() >= self._renew_at_ms:
            if self._pending:  # else a connection that is never idle would never log in again
                self._held.append(_Held(key, version, body, on_frame, timeout_ms))
                return
            self._renew()
        number = self._expect(key, on_frame, timeout_ms)
        if LINKS.is_cut(self.address):
            return  # a test has cut the link: the request times out
        frame = request_frame(key, version, number, self._client_id, body)
        delay_ms = LINKS.delay_ms(self.address)
        if delay_ms:
            self._dispatcher.call_later(delay_ms, partial(self._send_late, number, frame))
        else:
            self._send_frame(frame)

    def _renew(self) -> None:
        """End the connection, on which no request waits for an answer: the next one logs in again."""
        held, self._held = self._held, []
        self._end(ChannelBroken(f"{self}: the login has to be renewed"))
        for each in held:
            self.send(*each)

    def _expect(self, key: int, on_frame: OnFrame, timeout_ms: float = 0) -> int:
        """Wait for the answer to the next request. Return its number."""
        self._correlation += 1
        number = self._correlation
        timer = self._dispatcher.call_later(timeout_ms or self._timeout_ms, partial(self._timed_out, number, key))
        self._pending[number] = _Pending(on_frame, timer)
        return number

    def _send_late(self, number: int, frame: bytes) -> None:
        if number in self._pending:
            self._send_frame(frame)

    def _send_frame(self, frame: bytes) -> None:
        if self._let_in:
            self._write([frame])
        else:
            self._unsent.append(frame)
            self._open()

    def _write(self, frames: list[bytes]) -> None:
        if LINKS.is_cut(self.address):
            return  # a test has cut the link since these requests were made
        assert self._output is not None
        self._output.extend(frames)
        self._flush(self._life)

    @property
    def in_flight(self) -> int:
        """Number of requests without an answer."""
        return len(self._pending) + len(self._held) + len(self._before_versions)

    def close(self, why: str = "the channel was closed") -> None:
        """Close the connection. Requests without an answer fail."""
        self._end(ChannelBroken(f"{self}: {why}"))

    def __str__(self) -> str:
        return address_text(*self.address)

    # --- versions ---

    def _ask_versions(self) -> None:
        body = {"client_software_name": "streamactors", "client_software_version": __version__}
        encoded = encode_request(API_VERSIONS, _VERSIONS_VERSION, body)
        self.send(API_VERSIONS, _VERSIONS_VERSION, encoded, self._got_versions)

    def _got_versions(self, frame: memoryview | ChannelBroken) -> None:
        if isinstance(frame, ChannelBroken):
            return  # `_end` answers those who wait
        try:
            answer = decode_response(API_VERSIONS, _VERSIONS_VERSION, frame, 4)
        except MalformedMessage as error:
            self.close(f"a malformed answer to ApiVersions: {error}")
            return
        if answer.error_code:
            self.close(f"it refused ApiVersions with {ErrorCode(answer.error_code).name}")
            return
        self.peer_versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        self.peer_features = {each.name: each.max_version_level for each in answer.finalized_features}
        waiting, self._before_versions = self._before_versions, []
        for ask in waiting:
            self.request(*ask)

    # --- the connection ---

    def _open(self) -> None:
        if self._socket is None and self._opening is None:
            self._life += 1
            self._opening = Opening(self._dispatcher, self.address, self._entrance, self._opened, self._not_opened)

    def _not_opened(self, failure: NotOpened) -> None:
        self._opening = None
        if failure.by_tls:
            self._entrance.outcome(self.address, failure.why)
        kind = ChannelRefused if failure.is_refused else ChannelBroken
        self._end(kind(f"{self}: {failure.why}"))

    def _opened(self, sock: socket.socket) -> None:
        self._opening = None
        self._socket = sock
        self._output, self._receive_into, self._holds_input = ends_of(
            sock, encrypted=self._entrance.context is not None
        )
        self._reader = FrameReader(self._buffers.scratch, self._buffers.pool, MAX_ANSWER_BYTES)
        self._registered = (True, False)
        self._dispatcher.register(sock, partial(self._on_readable, self._life), None)
        if self._entrance.login is None:
            self._enter()
        else:
            self._log_in(self._entrance.login(), None)

    def _enter(self, lifetime_ms: int = 0) -> None:
        """TLS and the login are done: send the requests that have waited for the connection."""
        self._let_in = True
        self._renew_at_ms = self._dispatcher.clock.now_ms() + lifetime_ms * _RENEW_AFTER if lifetime_ms else 0.0
        self._entrance.outcome(self.address, None)
        unsent, self._unsent = self._unsent, []
        self._write(unsent)

    def _log_in(self, login: Login, answer: Any) -> None:
        """Send the next request of the login."""
        try:
            (key, version), body = login.send(answer)
        except StopIteration as done:
            self._enter(done.value)
        except (StreamActorsError, ValueError) as error:
            self._refused(str(error))
        else:
            number = self._expect(key, partial(self._login_answered, login, key, version))
            self._write([request_frame(key, version, number, self._client_id, encode_request(key, version, body))])

    def _login_answered(self, login: Login, key: int, version: int, frame: memoryview | ChannelBroken) -> None:
        if isinstance(frame, ChannelBroken):
            return  # the connection has ended
        try:
            flexible = response_header_is_flexible(key, version)
            answer = decode_response(key, version, frame, skip_tagged_fields(frame, 4) if flexible else 4)
        except MalformedMessage as error:
            self._refused(f"a malformed answer to {api_name(key)}: {error}")
            return
        self._log_in(login, answer)

    def _refused(self, why: str) -> None:
        self._entrance.outcome(self.address, f"the login fails: {why}")
        self._end(ChannelBroken(f"{self}: the login fails: {why}"))

    def _flush(self, life: int) -> int:
        """Send what waits. Returns the number of bytes sent; 1 for a connection that has ended, which leaves the dispatcher."""
        if life != self._life or self._output is None:
            return 0
        output = self._output
        waiting = output.size
        try:
            output.flush()
        except OSError as error:
            self._end(ChannelBroken(f"{self}: {error}"))
            return 1
        wanted = (True, bool(self._output))
        if wanted != self._registered:
            self._registered = wanted
            assert self._socket is not None
            writable = partial(self._flush, life) if wanted[1] else None
            self._dispatcher.modify(self._socket, partial(self._on_readable, life), writable)
        return waiting - output.size

    def _on_readable(self, life: int) -> int:
        """Receive once and pass on the answers. Returns the number of bytes received; 1 for a connection that has ended."""
        if life != self._life or self._socket is None or self._reader is None or self._receive_into is None:
            return 0
        reader = self._reader
        try:
            received = reader.receive(self._receive_into)
            if received == 0:
                self._lost(" closed the connection", refused=not self._let_in)
                return 1
            while life == self._life and (frame := reader.next_frame()) is not None:
                self._answered(frame)
        except (BlockingIOError, InterruptedError):
            return 0
        except BadFrame as error:
            self._end(ChannelBroken(f"{self}: an answer of {error.size} bytes; is it a Kafka node?"))
            return 1
        except OSError as error:
            reason = getattr(error, "reason", None)  # an alert of TLS: the node refuses our certificate
            self._lost(f": {reason or error}", refused=reason is not None or not self._let_in)
            return 1
        if life == self._life:
            reader.park()
            if self._holds_input():
                # OpenSSL has read these bytes from the socket into its buffer, so no event of the socket follows for them
                self._dispatcher.execute(partial(self._on_readable, life))
        return received

    def _lost(self, why: str, refused: bool) -> None:
        if refused:
            self._entrance.outcome(self.address, why)
        self._end(ChannelClosed(f"{self}{why}"))

    def _answered(self, frame: memoryview) -> None:
        if LINKS.is_cut(self.address):
            return  # the answer to a request from before the cut is lost as well
        number = INT32.unpack_from(frame)[0] if len(frame) >= 4 else 0
        pending = self._pending.pop(number, None)
        if pending is None:
            self._end(ChannelBroken(f"{self} answered request {number}, which was not sent"))
            return
        pending.timer.cancel()
        try:
            pending.on_frame(frame)
        except Exception:  # noqa: BLE001 - logged; the other answers must reach their callbacks
            _log.exception("%s: the answer to request %d could not be used; this is a bug", self, number)
        if self._held and not self._pending:
            self._renew()

    def _timed_out(self, number: int, key: int) -> None:
        if number in self._pending:
            self._end(ChannelBroken(f"{self} did not answer {api_name(key)} in time"))

    def _end(self, error: ChannelBroken) -> None:
        """End the connection; every request on it fails."""
        self._life += 1
        self._let_in = False
        self._renew_at_ms = 0.0
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self.peer_versions = {}
        sock, self._socket = self._socket, None
        if self._reader is not None:
            self._reader.close()
            self._reader = self._output = self._receive_into = None
        if sock is not None:
            try:
                self._dispatcher.unregister(sock)
            except KeyError:
                pass  # The dispatcher has already removed the broken socket, or never had it.
            sock.close()
        pending, self._pending = self._pending, {}
        waiting, self._before_versions = self._before_versions, []
        held, self._held = self._held, []
        self._unsent = []
        for each in pending.values():
            each.timer.cancel()
            each.on_frame(error)
        for kept in held:
            kept.on_frame(error)
        for ask in waiting:
            ask.then(ChannelAnswer(error=error))
