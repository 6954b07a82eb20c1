"""A connection that was mute and has its answers leaves the loop at rest: one commit of offsets once cost a whole core.

An answer was queued and the mute time ended in the same round, so the connection was registered as one that waits for room in the
socket. The answer left, and the socket, which had room all the time, was reported as writable in every round."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamactors.actors.dispatching.spinning import spins
from streamactors.broker.network.connection import Mute
from tests.broker.at_rest import ready_in
from tests.broker.network.network_under_test import FakeRequest, Network, echo, framed
from tests.broker.wire import wait_until

REASONS = {
    name: value for name, value in vars(Mute).items() if name.isupper() and name not in ("NONE", "OUTPUT", "CLOSING")
}
"""Every reason that ends while the connection lives, without those of the output itself."""


@pytest.mark.parametrize("reason", REASONS)
def test_an_answer_in_the_round_in_which_a_mute_time_ends_leaves_the_loop_at_rest(
    reason: str, start: Callable[..., Network]
) -> None:
    def answer_and_read_on(request: FakeRequest) -> None:
        echo(request)
        request.connection.unmute(REASONS[reason])

    network = start(lambda request: request.connection.mute(REASONS[reason]))
    with network.client() as client:
        for number in range(2):  # the second one is read: the mute time has ended
            client.send_raw(framed(b"%d" % number))
            wait_until(lambda number=number: len(network.seen) > number)
            network.on_loop(lambda: answer_and_read_on(network.seen[-1]))
            assert client.read_frame() == b"%d" % number
            assert ready_in(network.dispatcher) == []
    assert not spins()


def test_a_connection_that_had_all_requests_in_service_leaves_the_loop_at_rest(start: Callable[..., Network]) -> None:
    network = start(max_in_flight=4)
    with network.client() as client:
        client.send_raw(framed(b"x") * 8)
        wait_until(lambda: len(network.seen) == 4)
        for number in range(8):
            wait_until(lambda number=number: len(network.seen) > number)
            network.on_loop(lambda number=number: echo(network.seen[number]))
        assert [client.read_frame() for _ in range(8)] == [b"x"] * 8
        assert ready_in(network.dispatcher) == []


def test_a_connection_that_waited_for_the_byte_limit_leaves_the_loop_at_rest(start: Callable[..., Network]) -> None:
    network = start(max_in_flight_bytes=10)
    with network.client() as client, network.client() as other:
        client.send_raw(framed(b"." * 12) * 3)
        wait_until(lambda: len(network.seen) == 1)
        other.send_raw(framed(b"-" * 12))
        for number in range(4):
            wait_until(lambda number=number: len(network.seen) > number)
            network.on_loop(lambda number=number: echo(network.seen[number]))
        assert [client.read_frame() for _ in range(3)] == [b"." * 12] * 3
        assert other.read_frame() == b"-" * 12
        assert ready_in(network.dispatcher) == []


def test_a_throttled_connection_is_silent_during_the_throttle_and_after_it(start: Callable[..., Network]) -> None:
    def service(request: FakeRequest) -> None:
        if request.payload == b"throttled":
            request.connection.throttle(1_000)
            echo(request)

    network = start(service)
    with network.client() as client:
        client.send_raw(framed(b"slow") + framed(b"throttled") + framed(b"late"))
        wait_until(lambda: len(network.seen) == 2)
        assert ready_in(network.dispatcher) == []
        # the answers to the first two leave in the round in which the throttle ends
        network.on_loop(lambda: (echo(network.seen[0]), network.seen[0].connection._end_throttle()))
        wait_until(lambda: len(network.seen) == 3)
        network.on_loop(lambda: echo(network.seen[2]))
        assert [client.read_frame() for _ in range(3)] == [b"slow", b"throttled", b"late"]
        assert ready_in(network.dispatcher) == []


def test_a_client_that_read_its_answers_late_leaves_the_loop_at_rest(start: Callable[..., Network]) -> None:
    answer = framed(bytes(4 << 20))
    network = start(lambda request: request.answer(answer))
    with network.client(receive_buffer=4096) as client:
        client.send_raw(framed(b"x") * 3)
        wait_until(lambda: bool(network.seen) and bool(network.seen[0].connection.muted & Mute.OUTPUT))
        assert ready_in(network.dispatcher) == []  # the socket is full: nothing to do until the client reads
        for _ in range(3):
            client.read_exactly(len(answer))
        assert ready_in(network.dispatcher) == []


def test_a_mute_connection_that_goes_on_sending_is_not_reported_again(start: Callable[..., Network]) -> None:
    network = start(lambda request: request.connection.mute(Mute.HANDLER))
    with network.client() as client:
        client.send_raw(framed(b"a"))
        wait_until(lambda: len(network.seen) == 1)
        client.send_raw(framed(b"b"))
        wait_until(lambda: network.seen[0].connection.registered == (False, False))
        assert ready_in(network.dispatcher) == []
        network.on_loop(lambda: (echo(network.seen[0]), network.seen[0].connection.unmute(Mute.HANDLER)))
        wait_until(lambda: len(network.seen) == 2)
        assert client.read_frame() == b"a"
        assert ready_in(network.dispatcher) == []


def test_a_connection_that_ends_after_its_answers_is_not_reported_while_it_waits_for_them(
    start: Callable[..., Network],
) -> None:
    network = start()
    with network.client() as client:
        client.send_raw(framed(b"a"))
        wait_until(lambda: len(network.seen) == 1)
        network.on_loop(lambda: network.seen[0].connection.close_after_answers(""))
        client.send_raw(framed(b"never read"))
        wait_until(lambda: network.seen[0].connection.registered == (False, False))
        assert ready_in(network.dispatcher) == []
        network.on_loop(lambda: echo(network.seen[0]))
        assert client.read_frame() == b"a"
        assert client.closed_by_peer()
        assert ready_in(network.dispatcher) == []
