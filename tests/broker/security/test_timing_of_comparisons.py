"""Timing of comparisons: a secret is compared by `hmac.compare_digest` and by nothing else, at every place that compares one.

No time is measured. Each place is driven twice with the comparison replaced: by one that always says yes, a wrong secret is accepted; by one that always
says no, the right secret is refused. So no other comparison of the secret decides, neither before nor after: such a comparison could end at the first
byte that differs, and its time would tell how many bytes were right."""

from __future__ import annotations

import ast
import hmac
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import streamactors
from streamactors.broker.http.endpoint import HttpEndpoint, Page
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.broker.metadata.security_record import DelegationToken
from streamactors.broker.security.delegation_tokens import DelegationTokens, hmac_of
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.security.sasl.plain import Plain
from streamactors.broker.security.sasl.scram import HASHES, Scram, ScramClient, new_credential
from streamactors.dashboard.server.access import Access
from streamactors.kafka.state.queries import query_server
from streamactors.stages.stream_refs import link

KIND = HASHES["SCRAM-SHA-256"]
CREDENTIAL = new_credential(KIND, "right")
Replace = Callable[[bool], None]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Replace:
    def replace(verdict: bool) -> None:
        monkeypatch.setattr(hmac, "compare_digest", lambda one, other: verdict)

    return replace


def plain(secret: str) -> bool:
    made = Plain({"ann": "right"})
    try:
        made.respond(f"\0ann\0{secret}".encode())
    except AuthenticationFailed:
        return False
    return made.principal == "User:ann"


def scram_broker(secret: str) -> bool:
    made = Scram(KIND, lambda user: CREDENTIAL, lambda token_id: None, lambda: CREDENTIAL, lambda: b"salt")
    client = ScramClient(KIND, "ann", secret)
    try:
        made.respond(client.last(made.respond(client.first())))
    except AuthenticationFailed:
        return False
    return made.principal == "User:ann"


def scram_client(secret: str) -> bool:
    """The broker proves to the client that it knows the password."""
    client = ScramClient(KIND, "ann", "right")
    client._expected = b"v=right"
    try:
        client.check(f"v={secret}".encode())
    except AuthenticationFailed:
        return False
    return True


def delegation_token(secret: str) -> bool:
    token = DelegationToken("User:ann", "User:ann", (), 0, 10, 10, "id")
    metadata: Any = SimpleNamespace(image=SimpleNamespace(tokens={"id": token}))
    tokens = DelegationTokens(metadata, "key", lambda: 0.0)
    return tokens.find(hmac_of("key", "id") if secret == "right" else b"wrong") is not None


def asked_over_http(port: int, secret: str, path: str) -> bool:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {secret}"})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code != 401


def metrics(secret: str) -> bool:
    endpoint = HttpEndpoint(MetricsEndpoint("127.0.0.1", 0, token="right"), {"/metrics": lambda: Page(b"x")})
    try:
        return asked_over_http(endpoint.port, secret, "/metrics")
    finally:
        endpoint.close()


def queries(secret: str) -> bool:
    stores: Any = SimpleNamespace(names=[])
    with query_server._Server(("127.0.0.1", 0), query_server._handler(stores, "right")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            return asked_over_http(server.server_address[1], secret, "/stores")
        finally:
            server.shutdown()
            thread.join()


def stream_ref(secret: str) -> bool:
    place = link.Place("source", "127.0.0.1", 1, b"right")
    return not link._refused([link.HELLO, link.VERSION, "sink", secret.encode()], place)


def spark_bridge(secret: str) -> bool:
    pytest.importorskip("pyarrow")
    from streamactors.spark.bridge import bridge

    token = "right".ljust(bridge.TOKEN_BYTES)
    made: Any = SimpleNamespace(token=token, _dropped=0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(secret.ljust(bridge.TOKEN_BYTES).encode())
        return bridge.Bridge._has_token(made, ours, "a peer")


def dashboard_token(secret: str) -> bool:
    return Access("right").admits({"authorization": f"Bearer {secret}"})


def dashboard_cookie(secret: str) -> bool:
    access = Access("any")
    access._session = "right"
    return access.admits({"cookie": f"{access.cookie}={secret}"})


PLACES: dict[str, list[Callable[[str], bool]]] = {
    "broker/http/endpoint.py": [metrics],
    "broker/security/delegation_tokens.py": [delegation_token],
    "broker/security/sasl/plain.py": [plain],
    "broker/security/sasl/scram.py": [scram_broker, scram_client],
    "dashboard/server/access.py": [dashboard_token, dashboard_cookie],
    "kafka/state/queries/query_server.py": [queries],
    "spark/bridge/bridge.py": [spark_bridge],
    "stages/stream_refs/link.py": [stream_ref],
}
"""Every file of the package that compares a secret, and how a test asks it."""

ROOT = Path(streamactors.__file__).parent
SECRET = re.compile(r"password|secret|hmac|proof|stored_key|bearer|(^|_)token$", re.IGNORECASE)
NO_SECRETS = frozenset({"by_token", "compact_token"})


@pytest.mark.expects_log("without the token of this run")
@pytest.mark.parametrize(
    "place", [each for found in PLACES.values() for each in found], ids=lambda place: place.__name__
)
def test_the_comparison_in_constant_time_alone_decides(place: Callable[[str], bool], always: Replace) -> None:
    assert place("right")
    assert not place("wrong")
    always(True)
    assert place("wrong")
    always(False)
    assert not place("right")


def test_each_file_that_compares_a_secret_is_asked() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if "compare_digest(" in path.read_text()}
    assert found == PLACES.keys()


def test_no_secret_is_compared_by_an_operator() -> None:
    """`==` ends at the first byte that differs. A comparison with a constant tells nothing of a secret."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        and not any(isinstance(each, ast.Constant) for each in (node.left, *node.comparators))
        and any(_is_secret(each) for each in (node.left, *node.comparators))
    ]
    assert found == []


def _is_secret(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(SECRET.search(name)) and name not in NO_SECRETS


def test_an_unknown_user_costs_the_same_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append((one, other)) or real(one, other))
    for user in (b"ann", b"nobody"):
        with pytest.raises(AuthenticationFailed):
            Plain({"ann": "right"}).respond(b"\0" + user + b"\0wrong")
    assert [other for _, other in compared] == [b"wrong", b"wrong"]
