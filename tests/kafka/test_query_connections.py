"""Connections to the HTTP route of the stores: so many are served, and those without the token make room."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.kafka import ConsumerSettings
from streamactors.kafka.state.queries import query_server
from streamactors.kafka.state.queries.query_server import MOST_CONNECTIONS, QueryServer
from streamactors.windows import State
from tests.refused_accepts import EITHER, refused_accepts


@pytest.fixture
def address():
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def server(address):
    settings = ConsumerSettings("localhost:1", "app", state=State.in_memory(advertise=address, token="t"))
    server = QueryServer(SimpleNamespace(names=["counts"], peers=None), settings)
    yield server
    server.close()


@pytest.fixture
def connect(address):
    host, port = address.split(":")
    with ExitStack() as opened:
        yield lambda: opened.enter_context(socket.create_connection((host, int(port)), timeout=30))


def names(address):
    asked = urllib.request.Request(f"http://{address}/stores", headers={"Authorization": "Bearer t"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.read()


def has_ended(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.slow
def test_more_connections_than_are_served_are_refused_until_others_end(server, address, connect, wait_for):
    # Each connection had a thread at once, before the token was seen.
    strangers = [connect() for _ in range(MOST_CONNECTIONS)]
    wait_for(lambda: len(server._server._open) == MOST_CONNECTIONS)
    assert has_ended(connect())
    strangers[0].close()
    wait_for(lambda: len(server._server._open) < MOST_CONNECTIONS)
    assert names(address) == b'["counts"]'


def test_a_connection_that_does_not_show_the_token_makes_room(server, address, connect, wait_for, monkeypatch):
    strangers = [connect() for _ in range(MOST_CONNECTIONS)]
    wait_for(lambda: len(server._server._open) == MOST_CONNECTIONS)
    monkeypatch.setattr(query_server, "STRANGER_S", -1)
    assert names(address) == b'["counts"]', "the next one, though their threads have not ended yet"
    assert all(map(has_ended, strangers))


@EITHER
def test_a_server_that_cannot_accept_says_so_and_accepts_later(server, address, monkeypatch, caplog, error, said):
    # It tried again at once, for as long as the error lasted, and said nothing.
    left = refused_accepts(monkeypatch, lambda thread: thread is server._thread, error(), error())
    assert names(address) == b'["counts"]'
    assert not left
    assert caplog.text.count(said) == 1  # the second one is within the same second
