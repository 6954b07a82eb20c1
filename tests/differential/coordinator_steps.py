"""Requests to group and transaction coordinators over several connections: how a script of them is written and played.

A request that waits for somebody else (JoinGroup, SyncGroup) is sent with `parked`, and its answer taken later with `answer_to`.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from streamactors.broker.protocol.decoding import Decoded
from streamactors.broker.records.batch import RecordBatch
from tests.broker.wire import WireClient

ANSWER_WITHIN_S = 60.0
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Seen = Mapping[str, Any]
Body = Mapping[str, Any] | Callable[[Seen], Mapping[str, Any]]


class Step(NamedTuple):
    """One request. `name` is how a difference in its answer is listed."""

    name: str
    key: int
    version: int
    body: Body
    on: str = "a"  # the connection, which is made when it is first named
    parked: bool = False  # send it and go on
    again_while: tuple[int, ...] = ()  # errors of a coordinator that is still busy with what was asked before


class AnswerTo(NamedTuple):
    """Take the answer to a request that was parked."""

    name: str
    on: str


class Until(NamedTuple):
    """Ask until the answer is as wanted: a parked request has arrived, a transaction is over."""

    name: str
    key: int
    version: int
    body: Body
    wanted: Callable[[Any], bool]


Script = Sequence[Step | AnswerTo | Until]


def play(address: str, script: Script) -> dict[str, Any]:
    """Send the script; return each request's answer, or how the connection ended."""
    host, port = address.split(":")
    connections: dict[str, WireClient] = {}
    seen: dict[str, Any] = {}

    def connection(name: str) -> WireClient:
        if name not in connections:
            connections[name] = WireClient(host, int(port), client_id=f"client-{name}")
            connections[name].socket.settimeout(ANSWER_WITHIN_S)
        return connections[name]

    def answered(step: Step | AnswerTo, take: Callable[[], Any]) -> None:
        try:
            seen[step.name] = take()
        except (ConnectionError, TimeoutError) as error:
            seen[step.name] = "no answer" if isinstance(error, TimeoutError) else "closed the connection"
            connections.pop(step.on).close()

    for step in script:
        match step:
            case AnswerTo():
                answered(step, lambda step=step: connection(step.on).receive()[1])
            case Until():
                _ask_until(connection("observer"), step, seen)
            case Step(parked=True):
                connection(step.on).send(step.key, step.version, _body(step, seen))
            case Step():
                answered(step, lambda step=step: _ask(connection(step.on), step, seen))
    for client in connections.values():
        client.close()
    return seen


def _body(step: Step | Until, seen: Seen) -> Mapping[str, Any]:
    return step.body(seen) if callable(step.body) else step.body


def _ask(client: WireClient, step: Step, seen: Seen) -> Any:
    give_up = time.monotonic() + ANSWER_WITHIN_S
    while True:
        answer = client.call(step.key, step.version, _body(step, seen))
        if not {*step.again_while} & {*errors_in(answer)} or time.monotonic() > give_up:
            return answer


def _ask_until(client: WireClient, step: Until, seen: Seen) -> None:
    give_up = time.monotonic() + ANSWER_WITHIN_S
    while not step.wanted(answer := client.call(step.key, step.version, _body(step, seen))):
        assert time.monotonic() < give_up, f"{step.name}: {answer}"


def errors_in(answer: Any) -> list[int]:
    """Return every error code in an answer."""
    if isinstance(answer, Decoded):
        names = _fields(answer)
        own = [getattr(answer, name) for name in names if name.endswith("error_code")]
        return own + [code for name in names for code in errors_in(getattr(answer, name))]
    if isinstance(answer, list | tuple):
        return [code for each in answer for code in errors_in(each)]
    return []


def _fields(answer: Decoded) -> list[str]:
    return sorted({name for kind in type(answer).__mro__ for name in getattr(kind, "__slots__", ())})


def comparable(answers: Seen) -> dict[str, Any]:
    """Return answers without what cannot be the same: member ids, producer ids, ports and clocks."""
    producers = map("<producer {}>".format, itertools.count(1))
    names: dict[int, str] = {}

    def plain(value: Any, name: str = "") -> Any:
        if isinstance(value, Decoded):
            return {field: plain(getattr(value, field), field) for field in _fields(value)}
        if isinstance(value, list | tuple):
            return [plain(each, name) for each in value]
        if isinstance(value, str):
            return "<any>" if name == "error_message" and value else _UUID.sub("<uuid>", value)
        if name in ("producer_id", "port") and value >= 0:
            return names.setdefault(value, next(producers)) if name == "producer_id" else "<port>"
        if name.endswith(("_time_ms", "timestamp")) and isinstance(value, int) and value > 0:
            return "<now>"
        if isinstance(value, uuid.UUID):
            return "<id>"
        if name == "records" and value and RecordBatch(memoryview(value)).is_control:
            return "<marker>"  # it tells the time
        return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else value

    return {name: plain(answer) for name, answer in answers.items()}
