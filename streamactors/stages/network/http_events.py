"""server_sent_events: the events that an HTTP server sends, over as many connections as it takes (httpx, the extra `http`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, ConnectionFailed
from streamactors.log_limit import log_limited
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.defaults import LONGEST_EVENT, RECONNECT
from streamactors.stages.framing.server_sent_events import EventParser, ServerSentEvent
from streamactors.stages.restart_settings import RestartSettings
from streamactors.stages.sources.async_iterable import FromAsyncIterable

_log = logging.getLogger("streamactors.stages")


class ServerSentEvents(FromAsyncIterable):
    """The stage of `Source.server_sent_events`."""

    name = "server_sent_events"

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        reconnect: RestartSettings | None = RECONNECT,
        client: Callable[[], Any] | None = None,
        max_length: int = LONGEST_EVENT,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise BuildError("server_sent_events needs httpx: pip install 'streamactors[http]'") from None
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise BuildError(f"server_sent_events expects a URL with http:// or https://, got {shortened(url, 60)}")
        if reconnect is not None and not isinstance(reconnect, RestartSettings):
            raise BuildError(
                f"server_sent_events: reconnect must be RestartSettings or None, got {shortened(reconnect, 60)}"
            )
        make = plain_function("server_sent_events: client", client) if client is not None else _client
        super().__init__(
            _Events(
                httpx,
                url,
                dict(headers or {}),
                reconnect,
                make,
                positive("server_sent_events", "max_length", max_length),
            )
        )


def _client() -> Any:
    import httpx

    return httpx.AsyncClient(timeout=httpx.Timeout(10, read=None), follow_redirects=True)


class _Lost(Exception):
    """The connection ended or broke, or could not be made; another attempt may do better."""


class _Events:
    def __init__(
        self, httpx: Any, url: str, headers: dict[str, str], reconnect: RestartSettings | None, client: Any, most: int
    ) -> None:
        self._httpx = httpx
        self._url = url
        self._headers = headers
        self._reconnect = reconnect
        self._client = client
        self._most = most

    async def __aiter__(self) -> AsyncIterator[ServerSentEvent]:
        attempts = 0
        last_id, retry_ms = "", None
        async with self._client() as client:
            while True:
                parser = EventParser("server_sent_events", self._most)
                parser.last_id, parser.retry_ms = last_id, retry_ms
                why, level = "the server ended the stream", logging.INFO  # many servers do so now and then
                try:
                    async for data in self._bytes(client, last_id):
                        events: list[ServerSentEvent] = []
                        parser.feed(data, events)
                        for event in events:
                            attempts = 0
                            last_id = event.id
                            yield event
                except _Ended:
                    return
                except _Lost as lost:
                    why, level = str(lost), logging.WARNING
                retry_ms = parser.retry_ms
                reconnect = self._reconnect
                if reconnect is None:
                    if why == "the server ended the stream":
                        return
                    raise ConnectionFailed(f"server_sent_events {self._url}: {why}")
                attempts += 1
                if reconnect.max_restarts is not None and attempts > reconnect.max_restarts:
                    raise ConnectionFailed(f"server_sent_events {self._url}: {why}; gave up after {attempts} attempts")
                delay_ms = retry_ms if retry_ms is not None else reconnect.delay_ms(attempts - 1)
                log_limited(
                    _log, level, self._url, "server_sent_events %s: %s; again in %.0f ms", self._url, why, delay_ms
                )
                await asyncio.sleep(delay_ms / 1000)

    async def _bytes(self, client: Any, last_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of one connection. Raises _Lost where another attempt may help, ConnectionFailed where none will."""
        headers: dict[str, str | bytes] = {"Accept": "text/event-stream", "Cache-Control": "no-store", **self._headers}
        if last_id:
            headers["Last-Event-ID"] = last_id.encode()
        try:
            async with client.stream("GET", self._url, headers=headers) as response:
                status, kind = response.status_code, response.headers.get("content-type", "")
                if status == 204:
                    raise _Ended
                if status >= 500 or status == 429:
                    raise _Lost(f"the server answered {status} {response.reason_phrase}")
                if status != 200:
                    raise ConnectionFailed(
                        f"server_sent_events {self._url}: the server answered {status} {response.reason_phrase}"
                    )
                if kind.partition(";")[0].strip().lower() != "text/event-stream":
                    raise ConnectionFailed(
                        f"server_sent_events {self._url}: the server sent {kind or 'no content type'}, not text/event-stream"
                    )
                async for data in response.aiter_bytes():
                    yield data
        except self._httpx.TransportError as error:
            raise _Lost(f"{type(error).__name__}: {error}") from error


class _Ended(Exception):  # not an error
    """The server answered 204: there is nothing more to come."""
