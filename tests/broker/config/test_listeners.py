"""Listeners and advertised addresses, as in Apache Kafka."""

from __future__ import annotations

import socket

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import ListenerSpec, controller_spec, listener_specs
from streamactors.broker.config.setting import InvalidSetting


def specs(**settings: str) -> tuple[ListenerSpec, ...]:
    return listener_specs(BrokerConfig.of({name.replace("_", "."): value for name, value in settings.items()}))


def test_the_default_listens_on_loopback_only() -> None:
    assert specs() == (ListenerSpec("PLAINTEXT", "localhost", 9092, "localhost", 9092),)


def test_a_name_may_be_left_out() -> None:
    assert specs(listeners="127.0.0.1:0") == (ListenerSpec("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0),)


def test_several_listeners_have_their_own_advertised_addresses() -> None:
    assert specs(
        listeners="PLAINTEXT://localhost:9092,docker://0.0.0.0:29092",
        advertised_listeners="DOCKER://host.docker.internal:9999",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,DOCKER:PLAINTEXT",
    ) == (
        ListenerSpec("PLAINTEXT", "localhost", 9092, "localhost", 9092),
        ListenerSpec("DOCKER", "0.0.0.0", 29092, "host.docker.internal", 9999),
    )


def test_one_port_may_serve_on_two_addresses_and_0_is_never_the_same() -> None:
    for listeners in ("127.0.0.1:9092,B://[::1]:9092", "localhost:0,B://localhost:0"):
        assert len(specs(listeners=listeners, listener_security_protocol_map="B:PLAINTEXT")) == 2


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert specs(listeners="[::1]:9092")[0].host == "::1"


def test_a_wildcard_listener_is_advertised_with_the_host_name() -> None:
    assert specs(listeners="PLAINTEXT://:9092")[0].advertised_host == socket.gethostname()


def test_the_controllers_listener_is_not_opened() -> None:
    opened = specs(
        listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )
    assert [listener.name for listener in opened] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "9092"}, "listeners=9092: an address is host:port"),
        ({"listeners": "localhost:99999"}, "an address is host:port, with a port from 0 to 65535"),
        ({"listeners": f"localhost:{'9' * 5_000}"}, "an address is host:port, with a port from 0 to 65535"),
        (
            {"listeners": "*:9092"},
            "every interface is an empty host or 0.0.0.0",
        ),  # glibc takes * for one, and clients cannot
        ({"advertised.listeners": "PLAINTEXT://*:9092"}, "every interface is an empty host or 0.0.0.0"),
        ({"listeners": "A://localhost:1"}, "add A:PROTOCOL to listener.security.protocol.map"),
        ({"listeners": "localhost:1,localhost:2"}, "listener PLAINTEXT is given twice"),
        ({"listeners": "localhost:1,B://LOCALHOST:1", "listener.security.protocol.map": "B:PLAINTEXT"}, "share port 1"),
        (
            {"listeners": "localhost:1,B://:1", "listener.security.protocol.map": "B:PLAINTEXT"},
            "PLAINTEXT and B share port 1",
        ),
        ({"listeners": ""}, "there is no listener for clients"),
        ({"listeners": "X://localhost:1", "listener.security.protocol.map": "X:SASL"}, "its form is NAME:PROTOCOL"),
        ({"advertised.listeners": "B://localhost:1"}, "B is not among the listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to every interface"),
        ({"inter.broker.listener.name": "B"}, "inter.broker.listener.name=B: it is not among the listeners"),
        ({"listener.security.protocol.map": "X"}, "its form is NAME:PROTOCOL"),
    ],
)
def test_a_bad_address_is_one_clear_line(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        listener_specs(BrokerConfig.of(settings))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["CONTROLLER://:9093", "CONTROLLER://0.0.0.0:9093", "CONTROLLER://10.0.0.1:9093"])
def test_a_listener_of_controllers_that_others_reach_stays_closed_and_is_named(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = BrokerConfig.of({"listeners": f"PLAINTEXT://:9092,{address}", "controller.listener.names": "CONTROLLER"})
    assert controller_spec(config) is None
    (line,) = caplog.messages
    assert line.startswith(f"listener {address} stays closed: listeners of controllers have no logins yet")


def test_a_listener_of_controllers_on_loopback_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    given = {"listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.2:9093", "controller.listener.names": "CONTROLLER"}
    spec = controller_spec(BrokerConfig.of(given))
    assert spec is not None
    assert (spec.host, spec.port) == ("127.0.0.2", 9093)
    assert caplog.messages == []
