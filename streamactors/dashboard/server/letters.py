"""`/api/dead-letters`: the newest dead letters of a topic; `/api/dead-letters/replay` sends chosen ones again, where changes are allowed.

Owner: the server's loop; the cluster is asked on asyncio's threads, by one replay and two lists at most. Each replay is a line of the log."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from streamactors.dashboard.plain_text import plain
from streamactors.dashboard.reading.record_query import as_text
from streamactors.dashboard.redacting import Redact, redacted
from streamactors.dashboard.server.records import NO_CLUSTER
from streamactors.dashboard.server.routes import Route, json_object, json_response
from streamactors.errors import StreamActorsError
from streamactors.http.messages import Request, Response, said
from streamactors.kafka.errors import TopicNotFound
from streamactors.kafka.settings import ClientSettings

if TYPE_CHECKING:
    from streamactors.kafka.round_trips.stored_letters import Found, Place, Sent, StoredLetters

MOST_LETTERS: Final = 200
MOST_TEXT: Final = 1_000
MOST_LISTS: Final = 2
DELIVERY_MS: Final = 20_000
"""A letter that is not stored for so long is not sent."""
_PLACE: Final = re.compile(r"(\d{1,9})@(\d{1,18})", re.ASCII)

_log = logging.getLogger("streamactors.dashboard")


class Letters:
    """`properties()` returns librdkafka's, with `bootstrap.servers`; None if no cluster is known. `redact(text)` returns what is shown instead of a key,
    a value or a header."""

    def __init__(self, properties: Callable[[], Mapping[str, Any] | None], redact: Redact | None) -> None:
        self._properties = properties
        self._redact = redact
        self._lists = 0
        self._replays = False

    def routes(self) -> dict[str, tuple[str, Route]]:
        """Return the routes, by path."""
        return {"/api/dead-letters": ("GET", self._list), "/api/dead-letters/replay": ("POST", self._replay)}

    def _settings(self) -> ClientSettings | None:
        properties = self._properties()
        if properties is None:
            return None
        others = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
        return ClientSettings(properties["bootstrap.servers"], properties=others)

    async def _list(self, request: Request) -> Response:
        topic, most = request.query.get("topic", ""), request.query.get("limit", "100")
        if not topic or not re.fullmatch(r"[0-9]{1,6}", most):
            return said(HTTPStatus.BAD_REQUEST, f"give topic=, and limit= up to {MOST_LETTERS}")
        settings = self._settings()
        if settings is None:
            return said(HTTPStatus.NOT_FOUND, NO_CLUSTER)
        if self._lists >= MOST_LISTS:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "dead letters are being read already; ask again")
        self._lists += 1
        try:
            found = await asyncio.to_thread(self._newest, settings, topic, max(1, min(MOST_LETTERS, int(most))))
        except StreamActorsError as error:
            return _failed(error)
        finally:
            self._lists -= 1
        return json_response({"letters": found})

    def _newest(self, settings: ClientSettings, topic: str, most: int) -> list[dict[str, Any]]:
        found = sorted(
            _stored(settings).letters(topic, last=most), key=lambda each: each[0].timestamp or 0, reverse=True
        )
        return [self._shown(each) for each in found[:most]]

    def _shown(self, found: Found) -> dict[str, Any]:
        record, letter = found
        return {
            "letter": f"{record.partition}@{record.offset}",
            "stored_ms": record.timestamp,
            "source": letter.source[:MOST_TEXT],
            "timestamp_ms": letter.timestamp_ms,
            "stage": letter.stage[:MOST_TEXT],
            "reason": letter.error[:MOST_TEXT],
            "attempts": letter.attempts,
            "due_ms": letter.due_ms,
            "key": self._text(letter.key),
            "value": self._text(letter.value),
            "headers": [{"name": name[:MOST_TEXT], "value": self._text(value)} for name, value in letter.headers[:20]],
        }

    def _text(self, data: bytes | None) -> str | None:
        if data is None:
            return None
        return redacted(as_text(data), self._redact, str)[:MOST_TEXT]

    async def _replay(self, request: Request) -> Response:
        try:
            topic, places = chosen(json_object(request))
        except ValueError as error:
            return said(HTTPStatus.BAD_REQUEST, str(error))
        settings = self._settings()
        if settings is None:
            return said(HTTPStatus.NOT_FOUND, NO_CLUSTER)
        if self._replays:
            return said(HTTPStatus.CONFLICT, "letters are being sent already; wait for the answer")
        self._replays = True
        try:
            results = await asyncio.to_thread(self._send, settings, topic, places, request.peer)
        except StreamActorsError as error:
            return _failed(error)
        finally:
            self._replays = False
        return json_response({"results": results})

    def _send(self, settings: ClientSettings, topic: str, places: Sequence[Place], peer: str) -> list[dict[str, Any]]:
        """Send letters again, and write the line of the log whether or not the asker still waits."""
        from streamactors.kafka.round_trips.stored_letters import refuse_retries, send_again

        writing = settings.as_producer().with_property("message.timeout.ms", DELIVERY_MS)
        letters = _stored(settings).at(topic, places)
        refuse_retries(topic, letters)
        results = send_again(writing, [letter for _, letter in letters])
        told = [_result(place, sent) for place, sent in zip(places, results, strict=True)]
        parts = (
            f"{each['letter']} {'to ' + each['to'] if each['to'] else 'not sent: ' + each['error']}" for each in told
        )
        sent = sum(1 for each in told if each["to"])
        _log.warning("the page, asked from %s, sent %d of %d dead letters of %s again: %s", peer, sent, len(told), topic, "; ".join(parts))  # fmt: skip
        return told


def _stored(settings: ClientSettings) -> StoredLetters:
    from streamactors.kafka.round_trips.stored_letters import StoredLetters  # librdkafka: only where it is used

    return StoredLetters(settings, settings.as_consumer())


def chosen(given: Mapping[str, Any]) -> tuple[str, list[Place]]:
    """Return the topic and the places of a request to replay, each place once. Raises ValueError, whose text says what is wrong. Pure."""
    topic, letters = given.get("topic"), given.get("letters")
    found = (
        [_PLACE.fullmatch(each) if isinstance(each, str) else None for each in letters]
        if isinstance(letters, list)
        else []
    )
    if not isinstance(topic, str) or not topic or not found or None in found:
        raise ValueError('send {"topic": "orders-dead", "letters": ["0@17"]}: partition@offset of each letter')
    places = list(dict.fromkeys((int(each[1]), int(each[2])) for each in found if each is not None))
    if len(places) > MOST_LETTERS:
        raise ValueError(f"{len(places)} letters; at most {MOST_LETTERS} at once")
    return topic, places


def _result(place: Place, sent: Sent) -> dict[str, Any]:
    return {
        "letter": f"{place[0]}@{place[1]}",
        "to": sent.to or None,
        "error": None if sent.error is None else plain(sent.error, MOST_TEXT),
    }


def _failed(error: StreamActorsError) -> Response:
    from streamactors.kafka.round_trips.stored_letters import NoSuchLetter

    missing = isinstance(error, NoSuchLetter | TopicNotFound)
    return said(HTTPStatus.NOT_FOUND if missing else HTTPStatus.BAD_GATEWAY, plain(error, MOST_TEXT))
