"""Listeners and advertised addresses, as in Apache Kafka."""

from __future__ import annotations

import socket

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import (
    ListenerSpec,
    controller_listener,
    controller_spec,
    inter_broker_listener,
    listener_specs,
)
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
        ({"listeners": "a..b:9092"}, "listeners=a..b:9092: a..b is not a host name"),
        (
            {"advertised.listeners": f"{'x' * 64}:9092"},
            "is not a host name; each part between two dots has 1 to 63 characters",
        ),
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
    assert line.startswith(
        f"listener {address} stays closed: it is for controllers, is not on loopback, and does not authenticate"
    )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_one_of_several_controllers_refuses_to_let_strangers_in(protocol: str) -> None:
    given = {
        "listeners": "PLAINTEXT://:9092,C://10.0.0.1:9093",
        "controller.listener.names": "C",
        "listener.security.protocol.map": f"C:{protocol}",
        "controller.quorum.voters": "1@10.0.0.1:9093,2@10.0.0.2:9093",
    }
    with pytest.raises(
        InvalidSetting, match=f"listeners=C://10.0.0.1:9093: .*does not authenticate its clients as {protocol}; give it"
    ):
        controller_spec(BrokerConfig.of(given))


@pytest.mark.parametrize(
    "more",
    [
        {"listener.security.protocol.map": "C:SASL_SSL"},
        {"listener.security.protocol.map": "C:SASL_PLAINTEXT"},
        {"listener.security.protocol.map": "C:SSL", "ssl.client.auth": "required"},
        {"listener.security.protocol.map": "C:SSL", "listener.name.c.ssl.client.auth": "required"},
    ],
)
def test_a_listener_of_controllers_that_authenticates_is_opened_on_every_interface(more: dict[str, str]) -> None:
    given = {"listeners": "PLAINTEXT://:9092,C://0.0.0.0:9093", "controller.listener.names": "C", **more}
    spec = controller_spec(BrokerConfig.of(given))
    assert spec is not None
    assert (spec.host, spec.protocol) == ("0.0.0.0", more["listener.security.protocol.map"][2:])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("PLAINTEXT", "PLAINTEXT")),
        ({"security.inter.broker.protocol": "SSL"}, ("SSL", "SSL")),
        (
            {"inter.broker.listener.name": "inside", "listener.security.protocol.map": "INSIDE:SASL_SSL"},
            ("INSIDE", "SASL_SSL"),
        ),
    ],
)
def test_brokers_reach_each_other_by_the_listener_that_is_named_or_has_the_protocol(
    given: dict[str, str], expected: tuple[str, str]
) -> None:
    assert inter_broker_listener(BrokerConfig.of(given))[:2] == expected


def test_a_broker_without_the_listener_that_the_others_look_for_is_refused() -> None:
    member = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "h:1", "listeners": "SSL://h:9092"}
    with pytest.raises(
        InvalidSetting, match=r"the other brokers connect to a listener PLAINTEXT; set inter\.broker\.listener\.name"
    ):
        listener_specs(BrokerConfig.of(member))
    specs = listener_specs(BrokerConfig.of({**member, "security.inter.broker.protocol": "SSL"}))
    assert specs[0].protocol == "SSL"


def test_the_listener_between_brokers_is_named_in_one_way_only() -> None:
    both = {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}
    with pytest.raises(InvalidSetting, match="remove one of the two"):
        inter_broker_listener(BrokerConfig.of(both))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("CONTROLLER", "PLAINTEXT")),
        ({"controller.listener.names": "C2,C"}, ("C2", "PLAINTEXT")),
        ({"controller.listener.names": "SASL_SSL"}, ("SASL_SSL", "SASL_SSL")),
        ({"controller.listener.names": "C", "listener.security.protocol.map": "C:SSL"}, ("C", "SSL")),
    ],
)
def test_nodes_reach_the_controllers_by_the_first_of_their_listeners(
    more: dict[str, str], expected: tuple[str, str]
) -> None:
    assert controller_listener(BrokerConfig.of(more))[:2] == expected


def test_a_listener_of_controllers_on_loopback_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    given = {"listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.2:9093", "controller.listener.names": "CONTROLLER"}
    spec = controller_spec(BrokerConfig.of(given))
    assert spec is not None
    assert (spec.host, spec.port) == ("127.0.0.2", 9093)
    assert caplog.messages == []
