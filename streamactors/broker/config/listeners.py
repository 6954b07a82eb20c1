"""Listeners: the addresses that the broker listens on and advertises to clients.

Owner: the server. Syntax: Apache Kafka's `listeners` and `advertised.listeners`, `NAME://host:port` by comma; the name
may be left out for PLAINTEXT.
"""

from __future__ import annotations

import logging
import re
import socket
from itertools import combinations
from typing import Final, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.setting import InvalidSetting

_log = logging.getLogger("streamactors.broker")

_ADDRESS: Final = re.compile(
    r"(?:(?P<name>[A-Za-z][A-Za-z0-9_.-]*)://)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:/\[\]\s*]*)):(?P<port>[0-9]+)"
)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - recognised here, never a default


class ListenerSpec(NamedTuple):
    """One listener as configured. Port 0 means a free port; advertised port 0 means the bound port."""

    name: str
    host: str  # "" means every interface
    port: int
    advertised_host: str
    advertised_port: int
    protocol: str = "PLAINTEXT"


class _Address(NamedTuple):
    name: str
    host: str
    port: int


def listener_specs(config: BrokerConfig) -> tuple[ListenerSpec, ...]:
    """Return the listeners to open, in the given order, without the controller's own.

    Raises InvalidSetting for an invalid address, a duplicate name, or an advertised name that is not a listener.
    """
    protocols = _protocols(config)
    controllers = set(_controller_names(config))
    listening = [a for a in _addresses("listeners", config.listeners) if a.name not in controllers]
    advertised = {a.name: a for a in _addresses("advertised.listeners", config.advertised_listeners or "")}
    if not listening and not config.is_broker:
        return ()
    if not listening:
        raise _refuse(
            "listeners", config.listeners, "there is no listener for clients; give one like PLAINTEXT://localhost:9092"
        )
    for address in listening:
        protocol = protocols.get(address.name)
        if protocol is None:
            raise _refuse(
                "listeners",
                config.listeners,
                f"{address.name} has no protocol; add {address.name}:PROTOCOL to listener.security.protocol.map, with one of "
                f"{', '.join(_PROTOCOLS)}",
            )
    for one, other in combinations(listening, 2):
        same_host = one.host.lower() == other.host.lower() or {one.host, other.host} & set(_WILDCARDS)
        if one.port == other.port != 0 and same_host:
            raise _refuse(
                "listeners", config.listeners, f"{one.name} and {other.name} share port {one.port}; give each its own"
            )
    unheard = advertised.keys() - {a.name for a in listening} - controllers
    if unheard:
        raise _refuse(
            "advertised.listeners", str(config.advertised_listeners), f"{min(unheard)} is not among the listeners"
        )
    inter_broker = config.inter_broker_listener_name
    if inter_broker is not None and inter_broker.upper() not in {a.name for a in listening}:
        raise _refuse("inter.broker.listener.name", inter_broker, "it is not among the listeners")
    if config.is_one_of_several and config.is_broker:
        peer = inter_broker_listener(config).name
        if peer not in {a.name for a in listening}:
            raise _refuse(
                "listeners",
                config.listeners,
                f"the other brokers connect to a listener {peer}; set inter.broker.listener.name to the name of one of the listeners",
            )
    return tuple(
        _spec(address, advertised.get(address.name))._replace(protocol=protocols[address.name]) for address in listening
    )


def controller_spec(config: BrokerConfig) -> ListenerSpec | None:
    """Return the listener for other nodes of the cluster, which this node's controller serves; None if there is none.

    A request of an unknown client could depose the leader of the controllers. So beyond loopback the listener must authenticate its clients.
    Otherwise a single controller keeps it closed and logs a warning; one of several controllers raises InvalidSetting."""
    if config.is_member:
        return None
    for address in _addresses("listeners", config.listeners):
        if address.name not in _controller_names(config):
            continue
        protocol = _controller_protocol(config, address.name)
        loopback = address.host.lower() in ("localhost", "::1") or address.host.startswith("127.")
        if loopback or _authenticates(config, address.name, protocol):
            return _spec(address, None)._replace(protocol=protocol)
        why = (
            f"it is for controllers, is not on loopback, and does not authenticate its clients as {protocol}; give it SASL_SSL in "
            "listener.security.protocol.map, or SSL with ssl.client.auth=required"
        )
        if config.votes_with_others:
            raise _refuse("listeners", f"{address.name}://{address.host}:{address.port}", why)
        _log.warning("listener %s://%s:%d stays closed: %s", *address, why)
    return None


class PeerListener(NamedTuple):
    """A listener of other nodes, to which this node connects: its name, its protocol, and the setting that names the mechanism of the login."""

    name: str
    protocol: str
    mechanism_setting: str


def inter_broker_listener(config: BrokerConfig) -> PeerListener:
    """Return the listener to which other brokers connect. Raises InvalidSetting."""
    setting = "sasl.mechanism.inter.broker.protocol"
    name = config.inter_broker_listener_name
    if name is None:
        protocol = config.security_inter_broker_protocol
        return PeerListener(protocol, protocol, setting)
    if "security.inter.broker.protocol" in config.static:
        raise _refuse(
            "security.inter.broker.protocol",
            config.security_inter_broker_protocol,
            "inter.broker.listener.name is given too; remove one of the two",
        )
    protocols = _protocols(config)
    if name.upper() not in protocols:
        raise _refuse("inter.broker.listener.name", name, "add it to listener.security.protocol.map with its protocol")
    return PeerListener(name.upper(), protocols[name.upper()], setting)


def controller_listener(config: BrokerConfig) -> PeerListener:
    """Return the listener of the controllers to which nodes connect."""
    name = next(iter(_controller_names(config)), "CONTROLLER")
    return PeerListener(name, _controller_protocol(config, name), "sasl.mechanism.controller.protocol")


def _controller_names(config: BrokerConfig) -> list[str]:
    """Return the names of the controllers' listeners; nodes connect to the first."""
    return [name for each in (config.controller_listener_names or "").split(",") if (name := each.strip().upper())]


def _controller_protocol(config: BrokerConfig, name: str) -> str:
    return _protocols(config).get(name, "PLAINTEXT")


def _authenticates(config: BrokerConfig, name: str, protocol: str) -> bool:
    """Whether a listener authenticates its clients."""
    if protocol.startswith("SASL_"):
        return True
    return protocol == "SSL" and (config.of_listener(name, "ssl.client.auth") or "none") == "required"


def parse_address(setting: str, text: str) -> tuple[str, str, int]:
    """Return (name, host, port) of one address. Raises InvalidSetting naming `setting`."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        every = "; every interface is an empty host or 0.0.0.0" if "*" in text else ""
        raise _refuse(setting, text, f"an address is host:port or NAME://host:port, as in localhost:9092{every}")
    if len(match["port"]) > 5 or int(match["port"]) > 65535:
        raise _refuse(setting, text, "an address is host:port, with a port from 0 to 65535")
    host = match["v6"] or match["host"] or ""
    try:
        host.encode("idna")  # as Python does before it resolves a name
    except UnicodeError:
        raise _refuse(
            setting, text, f"{host} is not a host name; each part between two dots has 1 to 63 characters"
        ) from None
    return _Address((match["name"] or "PLAINTEXT").upper(), host, int(match["port"]))


def _addresses(setting: str, text: str) -> list[_Address]:
    found = [_Address(*parse_address(setting, part)) for part in text.split(",") if part.strip()]
    names = [address.name for address in found]
    for name in names:
        if names.count(name) > 1:
            raise _refuse(setting, text, f"listener {name} is given twice; use different names")
    return found


def _protocols(config: BrokerConfig) -> dict[str, str]:
    protocols = {name: name for name in _PROTOCOLS}
    text = config.listener_security_protocol_map
    for part in text.split(","):
        name, _, protocol = part.strip().upper().partition(":")
        if protocol not in _PROTOCOLS:
            raise _refuse(
                "listener.security.protocol.map",
                text,
                f"its form is NAME:PROTOCOL by comma, with a protocol of {', '.join(_PROTOCOLS)}",
            )
        protocols[name] = protocol
    return protocols


def _spec(listening: _Address, advertised: _Address | None) -> ListenerSpec:
    name, host, port = listening
    if advertised is not None:
        if advertised.host in _WILDCARDS:
            raise _refuse(
                "advertised.listeners",
                f"{name}://{advertised.host}:{advertised.port}",
                "clients cannot connect to every interface; name one host",
            )
        return ListenerSpec(name, host, port, advertised.host, advertised.port)
    # As in Kafka, a wildcard listener is advertised with the host name.
    advertised_host = socket.gethostname() if host in _WILDCARDS else host
    return ListenerSpec(name, host, port, advertised_host, port)


def _refuse(setting: str, text: str, way_out: str) -> InvalidSetting:
    return InvalidSetting(f"{setting}={text}: {way_out}", name=setting, value=text)
