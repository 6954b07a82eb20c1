"""How long a node waits for leave to depart."""

from __future__ import annotations

from concurrent.futures import Future

from streamactors.broker.membership.lifecycle import granted_in_time

LONG_S = 300.0
SHORT_S = 0.01


def test_a_node_stops_waiting_when_the_last_controller_has_gone_meanwhile() -> None:
    """Three nodes stopped side by side: a controller led at the first look, none at the second, and the node waited for 60 s."""
    hopes = [True, True, False]
    assert not granted_in_time(Future(), LONG_S, SHORT_S, lambda: hopes.pop(0))
    assert hopes == []


def test_a_departure_is_granted_late() -> None:
    left: Future[bool] = Future()

    def hope() -> bool:
        left.set_result(True)
        return True

    assert granted_in_time(left, LONG_S, SHORT_S, hope)


def test_the_time_is_up_though_there_is_hope() -> None:
    assert not granted_in_time(Future(), SHORT_S, 0.0, lambda: True)
    assert not granted_in_time(Future(), 3 * SHORT_S, SHORT_S, lambda: True)
