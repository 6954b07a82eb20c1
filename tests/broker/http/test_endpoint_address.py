"""The pages of a process over HTTP: a token where other hosts reach them, TLS, and clients that mean no good."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.http.endpoint import MOST_CONNECTIONS, HttpEndpoint, Page, Status
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from tests.refused_accepts import EITHER, refused_accepts

REFUSED = b"the token is missing or wrong; send it as Authorization: Bearer TOKEN\n"


@pytest.fixture
def token(tmp_path: Path) -> str:
    (tmp_path / "token").write_text("s3cret\n")
    return str(tmp_path / "token")


def serving(door: MetricsEndpoint) -> HttpEndpoint:
    return HttpEndpoint(
        door, {"/metrics": lambda: Page(b"up 1\n")}, {"/ready": lambda: Status(True, "ready", ["3 of 3 nodes"])}
    )


@pytest.fixture
def guarded(token: str) -> Iterator[HttpEndpoint]:
    endpoint = serving(MetricsEndpoint.of("0", token))
    yield endpoint
    endpoint.close()


def asked(url: str, authorization: str | None = None, **more: ssl.SSLContext) -> tuple[int, bytes]:
    headers = {} if authorization is None else {"Authorization": authorization}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, **more) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize(
    "wrong", [None, "", "Bearer", "Bearer s3cre", "Bearer  s3cret", "Basic s3cret", "bearer s3cret", "Bearer \u00e9"]
)
def test_metrics_need_the_whole_token(guarded: HttpEndpoint, wrong: str | None) -> None:
    url = f"http://127.0.0.1:{guarded.port}"
    status, body = asked(f"{url}/metrics", wrong)
    assert (status, body) == (401, REFUSED)
    assert asked(f"{url}/metrics", "Bearer s3cret") == (200, b"up 1\n")
    assert asked(f"{url}/ready", wrong) == (200, b"ready\n"), "a word for everybody, on loopback"
    assert asked(f"{url}/ready", "Bearer s3cret") == (200, b"ready\n3 of 3 nodes\n")


@pytest.mark.parametrize("without_token", [False, True])
def test_probes_of_an_address_that_others_reach_need_the_token_unless_told_otherwise(
    token: str, without_token: bool
) -> None:
    door = MetricsEndpoint.of("0.0.0.0:0", token, probes_without_token=without_token)
    endpoint = HttpEndpoint(
        door, {"/metrics": lambda: Page(b"up 1\n")}, {"/ready": lambda: Status(False, "not ready", ["draining"])}
    )
    try:
        url = f"http://127.0.0.1:{endpoint.port}"
        assert asked(f"{url}/ready") == ((503, b"not ready\n") if without_token else (401, REFUSED))
        assert asked(f"{url}/ready", "Bearer s3cret") == (503, b"not ready\ndraining\n")
        assert asked(f"{url}/metrics")[0] == 401
    finally:
        endpoint.close()


@pytest.mark.expects_log("/metrics of the metrics failed")
def test_a_page_that_fails_is_answered_and_logged(token: str) -> None:
    def fails() -> Page:
        raise RuntimeError("a collector of the user")

    endpoint = HttpEndpoint(MetricsEndpoint.of("0", token), {"/metrics": fails})
    try:
        status, body = asked(f"http://127.0.0.1:{endpoint.port}/metrics", "Bearer s3cret")
        assert (status, body) == (500, b"this page failed; the log of the process says why\n")
    finally:
        endpoint.close()


def test_what_is_not_there_is_not_told_without_the_token(guarded: HttpEndpoint) -> None:
    url = f"http://127.0.0.1:{guarded.port}"
    for path in ("/", "/stores", "/../etc/passwd", "/metrics/../ready", "/%2e%2e/ready"):
        assert asked(url + path)[0] == 401
        assert asked(url + path, "Bearer s3cret") == (404, b"not found; there are /metrics and /ready\n")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "example.org:9100"])
def test_an_address_that_others_reach_needs_a_token(address: str, token: str) -> None:
    with pytest.raises(
        InvalidSetting, match="so it needs a token; write one into a file and give --metrics-token-file FILE"
    ):
        MetricsEndpoint.of(address)
    assert MetricsEndpoint.of(address, token).token == "s3cret"


def test_wrong_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for file, said in (("missing", "No such file"), ("empty", "the file is empty")):
        with pytest.raises(InvalidSetting, match=said):
            MetricsEndpoint.of("0", str(tmp_path / file))
        with pytest.raises(InvalidSetting, match="PEM file with the certificate chain and its key"):
            MetricsEndpoint.of("0", None, str(tmp_path / file))


def test_metrics_of_a_broker_over_https(tmp_path: Path, token: str) -> None:
    make_certificates(tmp_path / "tls", ["localhost"])
    context = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
    endpoint = serving(MetricsEndpoint.of("0", token, str(tmp_path / "tls" / "server.pem")))
    try:
        url = f"localhost:{endpoint.port}/metrics"
        assert asked(f"https://{url}", "Bearer s3cret", context=context) == (200, b"up 1\n")
        with socket.create_connection(("127.0.0.1", endpoint.port), 30) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer s3cret\r\n\r\n")
            assert b"up 1" not in plain.recv(1_000)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(str(tmp_path / "tls" / "ca.pem"))
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"https://{url}", timeout=30, context=old)
    finally:
        endpoint.close()


def test_any_number_of_silent_clients_keeps_nobody_out(guarded: HttpEndpoint) -> None:
    # 64 of them made a probe of /ready fail until their time was over, which took 10 s.
    silent = [socket.create_connection(("127.0.0.1", guarded.port), 30) for _ in range(2 * MOST_CONNECTIONS)]
    for _ in range(3):
        assert asked(f"http://127.0.0.1:{guarded.port}/ready", "Bearer s3cret") == (200, b"ready\n3 of 3 nodes\n")
    assert silent[0].recv(1) == b"", "the oldest one has made room"
    for each in silent:
        each.close()


@EITHER
def test_an_endpoint_that_cannot_accept_says_so_and_accepts_later(
    guarded: HttpEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Callable[[], OSError],
    said: str,
) -> None:
    # It tried again at once, for as long as the error lasted, and said nothing: a broker without descriptors used a whole core.
    left = refused_accepts(monkeypatch, lambda thread: thread is guarded._server._thread, error(), error())
    assert asked(f"http://127.0.0.1:{guarded.port}/ready", "Bearer s3cret") == (200, b"ready\n3 of 3 nodes\n")
    assert not left
    assert caplog.text.count(said) == 1  # the second one is within the same second


def test_silent_clients_of_tls_keep_nobody_out(tmp_path: Path, token: str) -> None:
    make_certificates(tmp_path / "tls", ["localhost"])
    endpoint = serving(MetricsEndpoint.of("0", token, str(tmp_path / "tls" / "server.pem")))
    try:
        silent = [socket.create_connection(("127.0.0.1", endpoint.port), 30) for _ in range(2 * MOST_CONNECTIONS)]
        trusted = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        url = f"https://localhost:{endpoint.port}/ready"
        assert asked(url, "Bearer s3cret", context=trusted) == (200, b"ready\n3 of 3 nodes\n")
        assert silent[0].recv(1) == b"", "the oldest one has made room"
        for each in silent:
            each.close()
    finally:
        endpoint.close()


def test_a_client_that_is_being_served_does_not_make_room(token: str) -> None:
    asked_for, may_end = threading.Event(), threading.Event()

    def slow() -> Page:
        asked_for.set()
        may_end.wait(30)
        return Page(b"slow\n")

    endpoint = HttpEndpoint(MetricsEndpoint.of("0", token), {"/slow": slow, "/ready": lambda: Page(b"ready\n")})
    url, answers = f"http://127.0.0.1:{endpoint.port}", list[tuple[int, bytes]]()
    waiting = threading.Thread(target=lambda: answers.append(asked(f"{url}/slow", "Bearer s3cret")))
    waiting.start()
    assert asked_for.wait(30)
    silent = [socket.create_connection(("127.0.0.1", endpoint.port), 30) for _ in range(2 * MOST_CONNECTIONS)]
    assert asked(f"{url}/ready", "Bearer s3cret") == (200, b"ready\n")
    may_end.set()
    waiting.join(30)
    assert answers == [(200, b"slow\n")]
    for each in silent:
        each.close()
    endpoint.close()


def test_slow_and_silent_clients_keep_nobody_out(guarded: HttpEndpoint) -> None:
    slow = [socket.create_connection(("127.0.0.1", guarded.port), 30) for _ in range(MOST_CONNECTIONS - 1)]
    for each in slow:
        each.sendall(b"GET /metr")
    assert asked(f"http://127.0.0.1:{guarded.port}/metrics", "Bearer s3cret") == (200, b"up 1\n")
    for each in slow:
        each.close()


def test_a_cluster_serves_metrics_on_loopback_and_refuses_other_addresses_without_a_token() -> None:
    with pytest.raises(InvalidSetting, match="needs a token"):
        Cluster(metrics_port="0.0.0.0:0")


def test_metrics_on_loopback_need_the_token_of_this_start() -> None:
    doors = [MetricsEndpoint.of("0") for _ in range(2)]
    assert doors[0].token != doors[1].token
    assert min(len(door.token) for door in doors) >= 32
    endpoint = serving(doors[0])
    try:
        url = f"http://127.0.0.1:{endpoint.port}"
        for wrong in (None, f"Bearer {doors[1].token}"):
            assert asked(f"{url}/metrics", wrong)[0] == 401
        assert asked(f"{url}/metrics", f"Bearer {doors[0].token}") == (200, b"up 1\n")
    finally:
        endpoint.close()
