"""What a page asks for once in a while: a tap on a stage, and a key of a store.

Owner: the server's loop; what may wait runs on a thread of asyncio's."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from streamactors.dashboard.reading.graphs import short
from streamactors.dashboard.reading.tap import Tap
from streamactors.dashboard.redacting import Redact, redacted
from streamactors.dashboard.server.feed import BEGIN, event
from streamactors.dashboard.server.routes import Route, json_response
from streamactors.errors import StreamActorsError, UnknownStore
from streamactors.http.messages import EVENTS, Request, Response, said
from streamactors.kafka.controls.control import RUNNING, Control

LOOK_S: Final = 0.25
LONGEST_TAP_S: Final = 600.0
STORE_S: Final = 3.0
MOST_ENTRIES: Final = 100

Logics = Callable[[str, int], list[Any]]


class Lookups:
    """`logics(graph, stage)` finds a running stage by its ids in the states."""

    def __init__(self, logics: Logics, redact: Redact | None, controls: Iterable[Control] = RUNNING) -> None:
        self._logics = logics
        self._redact = redact
        self._controls = controls

    def routes(self) -> dict[str, tuple[str, Route]]:
        """Return the routes, by path."""
        return {"/api/tap": ("GET", self._tap), "/api/store": ("GET", self._store)}

    async def _tap(self, request: Request) -> Response:
        run, stage = request.query.get("run", ""), request.query.get("stage", "")
        found = self._logics(run, int(stage)) if stage.isdecimal() and len(stage) < 10 else []
        if not found:
            return said(HTTPStatus.NOT_FOUND, "no such stage runs; give run= and stage=, the ids of a state")
        if request.method == "HEAD":
            return Response(kind=EVENTS)
        return Response(kind=EVENTS, events=self._tapped(found[0]))

    async def _tapped(self, logic: Any) -> AsyncIterator[bytes]:
        """Yield sampled elements until the stage ends, or the client leaves."""
        yield BEGIN
        tap = Tap(logic, self._redact)
        try:
            for _ in range(int(LONGEST_TAP_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                texts = await asyncio.to_thread(tap.look)
                if texts:
                    yield event("elements", _json({"elements": texts}))
                elif tap.over:
                    break
                else:
                    yield b": nothing passed\n\n"  # writing finds out whether the client is still there
            yield event("end", b"{}")
        finally:
            tap.close()

    async def _store(self, request: Request) -> Response:
        name, key = request.query.get("name"), request.query.get("key")
        if name is None or key is None:
            return said(HTTPStatus.BAD_REQUEST, "give name= and key=; a key is JSON, or else a string")
        try:
            return json_response({"entries": await asyncio.to_thread(self._entries, name, key)})
        except TimeoutError:
            return said(HTTPStatus.GATEWAY_TIMEOUT, f"the store has not answered within {STORE_S:g} s")
        except (StreamActorsError, TypeError, ValueError) as error:
            status = HTTPStatus.NOT_FOUND if isinstance(error, UnknownStore) else HTTPStatus.BAD_REQUEST
            return said(status, short(" ".join(str(error).split())))

    def _entries(self, name: str, text: str) -> list[dict[str, str]]:
        """Return what the stores of that name have for a key, newest rows included. Raises UnknownStore if there is no such store.

        Each consumer of a group has the keys of its own partitions, so all are asked."""
        key = _key(text)
        found = []
        unknown = UnknownStore(f"no store {name!r}: no consumer runs")
        until = time.monotonic() + STORE_S
        there = False
        for control in list(self._controls):
            try:
                reply = control.store(name).range(key, key, dirty=True)
                found += reply.result(max(0.0, until - time.monotonic()))[:MOST_ENTRIES]
                there = True
            except UnknownStore as error:
                unknown = error
        if not there:
            raise unknown
        return [self._shown(entry) for entry in found[:MOST_ENTRIES]]

    def _shown(self, entry: Any) -> dict[str, str]:
        value = redacted(entry.value, self._redact, lambda shown: short(repr(shown)))
        start = "" if entry.start is None else str(entry.start)
        return {"key": short(repr(entry.key)), "start_ms": start, "value": value}


def _key(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
