"""Stream refs: one end of a stream is a value that can be sent to another process or host, which then runs the other end.

A ref is a string (`str(ref)`, `SourceRef.parse(text)`): send it by any means, for example as a Kafka record. It holds the token that opens
the stream, so treat it as a password. A ref can be used once."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from urllib.parse import urlsplit

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import MatMapped, StageModule
from streamactors.engine.stage import NotUsed
from streamactors.engine.user_code import shortened
from streamactors.errors import StreamRefError
from streamactors.stages.stream_refs.ends import WINDOW, Connector, Receiving, RefListener, Sending
from streamactors.stages.stream_refs.link import Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Ref:
    host: str
    """The host on which the other end listens."""
    port: int
    """Its port."""
    token: bytes
    """The secret of this ref, which the other end asks for."""

    def __str__(self) -> str:
        """Return the ref as a string, for `parse` in another process."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        token = base64.urlsafe_b64encode(self.token).decode().rstrip("=")
        return f"streamactors-{self._role()}://{token}@{host}:{self.port}"

    def __repr__(self) -> str:  # without the token: reprs go to logs
        return f"{type(self).__name__}({self.host}:{self.port})"

    @classmethod
    def _role(cls) -> str:
        return "source" if cls.__name__ == "SourceRef" else "sink"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the ref that `str(ref)` has written. Raises StreamRefError for any other text."""
        try:
            parts = urlsplit(text)
            token = base64.urlsafe_b64decode((parts.username or "") + "==")
            if parts.scheme == f"streamactors-{cls._role()}" and parts.hostname and parts.port and len(token) == 32:
                return cls(parts.hostname, parts.port, token)
        except (ValueError, TypeError, AttributeError, binascii.Error):
            pass
        shown = text.partition("://")[0] + "://…" if isinstance(text, str) and "://" in text else shortened(text, 40)
        raise StreamRefError(f"{shown} is not a {cls.__name__}; expected streamactors-{cls._role()}://token@host:port")

    def _place(self) -> Place:
        return Place(self._role(), self.host, self.port, self.token)


@dataclass(frozen=True, slots=True, repr=False)
class SourceRef(_Ref, Generic[T]):
    """A stream of another process, to be read here, once."""

    def source(self, *, window: int = WINDOW, tls: Any = None) -> Source[T, NotUsed]:
        """Return the source of the stream's elements. `window`: the most elements that are in transit or wait here.

        It fails with StreamRefError when the other end fails or dies, with ConnectionFailed when nothing listens there. When it is
        cancelled, the other end is."""
        return Source(StageModule(Receiving(Connector("source_ref.source", self._place(), tls), window)))


@dataclass(frozen=True, slots=True, repr=False)
class SinkRef(_Ref, Generic[T]):
    """A stream of another process, to be fed here, once."""

    def sink(self, *, tls: Any = None) -> Sink[T, StreamFuture[None]]:
        """Return the sink that sends elements there, as the other end asks for them.

        Its future ends when the other end has taken everything, or has cancelled; it fails with StreamRefError when the other end fails or
        dies, with ConnectionFailed when nothing listens there."""
        return Sink(StageModule(Sending(Connector("sink_ref.sink", self._place(), tls))))


class StreamRefs:
    """The ends that make refs. Each listens on a port of its own for one other end, on loopback unless a host is given.

    Elements go as msgpack, of the types of the project's codec: None, bool, int, float, str, bytes, bytearray, list, tuple, dict, datetime and Decimal.
    Nothing is unpickled. A frame has at most 4 MiB."""

    @staticmethod
    def source_ref(
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        subscription_timeout: Duration = "30s",
        tls: Any = None,
    ) -> Sink[Any, StreamFuture[SourceRef[Any]]]:
        """Return a sink whose elements another process reads. It materializes a future of the SourceRef, there as soon as it runs.

        The sink waits for the other end up to `subscription_timeout` (seconds, a timedelta, or a string), then fails with StreamTimeout. It
        fails with StreamRefError when the other end fails or dies. `advertised_host` is written into the ref instead of `host`, for example
        for "0.0.0.0". `tls` is the server's `ssl.SSLContext`; the other end gives a client's. A mark is done when the other end has taken
        everything."""
        listener = RefListener("source_ref", "source", host, advertised_host, tls, subscription_timeout)
        return Sink(MatMapped(StageModule(Sending(listener)), lambda future: _ref(SourceRef, future)))

    @staticmethod
    def sink_ref(
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        subscription_timeout: Duration = "30s",
        window: int = WINDOW,
        tls: Any = None,
    ) -> Source[Any, StreamFuture[SinkRef[Any]]]:
        """Return a source of the elements that another process sends. It materializes a future of the SinkRef, there as soon as it runs.

        The arguments are those of `source_ref`, such as `subscription_timeout` (seconds, a timedelta, or a string); `window` is the most
        elements that are in transit or wait here."""
        listener = RefListener("sink_ref", "sink", host, advertised_host, tls, subscription_timeout)
        return Source(MatMapped(StageModule(Receiving(listener, window)), lambda future: _ref(SinkRef, future)))


def _ref(cls: Any, place: StreamFuture[Place]) -> StreamFuture[Any]:
    """Return a future of the ref to a place."""
    ref: StreamFuture[Any] = StreamFuture(f"a {cls.__name__}")

    def done(future: Any) -> None:
        error = future.exception()
        if error is not None:
            ref.try_fail(error)
        else:
            at = future.result()
            ref.try_complete(cls(at.host, at.port, at.token))

    place.add_done_callback(done)
    return ref
