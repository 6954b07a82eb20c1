"""The settings of each of several brokers of one host, made from those of one: `streamactors broker --processes N`. Pure.

Broker number i has node id node.id + i, port p + i of every listener and the folder log.dirs/i. The first one has the roles that the settings give; the
others are brokers only. Without settings of a quorum the first one is the controller of the others, over a listener on loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import parse_address
from streamactors.broker.config.setting import InvalidSetting

CONTROLLER: Final = "CONTROLLER"
LOOPBACK: Final = "127.0.0.1"
QUORUM: Final = ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers")
ONE_COPY: Final[Mapping[str, str]] = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "controller.fence.closed.connections": "true",
}
"""Copies on the disk of one host protect nothing, so there is one unless the settings say otherwise. A process that has ended is fenced at once."""

FreePort = Callable[[], int]


class Address(NamedTuple):
    """A listener, or what it advertises."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def settings_of_each(given: Mapping[str, Any], processes: int, free_port: FreePort) -> list[dict[str, Any]]:
    """Return the settings of each broker. `given` are those of one, with log.dirs; `free_port` returns a port for a listener with port 0.

    Raises InvalidSetting."""
    config = BrokerConfig.of(given)
    if config.data_folders:
        raise InvalidSetting(
            f"--processes {processes}: log.dirs names {len(config.data_folders)} folders; give one, in which each broker has its own",
            name="log.dirs",
        )
    if not config.is_broker:
        raise InvalidSetting(
            f"--processes {processes}: process.roles={','.join(config.process_roles)} serves no clients; leave --processes out",
            name="process.roles",
        )
    listening = _addresses("listeners", config.listeners, free_port)
    advertised = {each.name: each for each in _addresses("advertised.listeners", config.advertised_listeners or "")}
    of_controllers = {each.strip().upper() for each in (config.controller_listener_names or "").split(",")}
    alone = not any(given.get(name) for name in QUORUM)
    common: dict[str, Any] = {**given, "broker.rack": given.get("broker.rack") or socket.gethostname()}
    first: dict[str, Any] = {}
    others: dict[str, Any] = {"process.roles": "broker"}
    if alone:
        controller = next((each for each in listening if each.name in of_controllers), None)
        if controller is None:
            controller = _own_controller(config, free_port)
            of_controllers = {controller.name}
            listening.append(controller)
            common["controller.listener.names"] = controller.name
            common["listener.security.protocol.map"] = f"{config.listener_security_protocol_map},{CONTROLLER}:PLAINTEXT"
        common = {**ONE_COPY, **common}
        first["process.roles"] = "broker,controller"
        others["controller.quorum.bootstrap.servers"] = f"{controller.host}:{controller.port}"
    _check_ports([each for each in listening if each.name not in of_controllers], processes)
    found = []
    for number in range(processes):
        opened = listening if number == 0 else [each for each in listening if each.name not in of_controllers]
        own = dict(common) | (others if number else first)
        own["node.id"] = str(config.effective_node_id + number)
        own.pop("broker.id", None)
        own["listeners"] = ",".join(str(_shifted(each, number, of_controllers)) for each in opened)
        told = [advertised[each.name] for each in opened if each.name in advertised]
        own.pop("advertised.listeners", None)
        if told:
            own["advertised.listeners"] = ",".join(str(_shifted(each, number, of_controllers)) for each in told)
        own["log.dirs"] = str(Path(str(config.data_folder)) / str(number))
        own.pop("log.dir", None)
        BrokerConfig.of(own)
        found.append(own)
    return found


def _own_controller(config: BrokerConfig, free_port: FreePort) -> Address:
    """Return a listener on loopback for the controller of these brokers. Raises InvalidSetting where that would be open to other hosts."""
    if config.authorizer_class_name:
        raise InvalidSetting(
            f"authorizer.class.name={config.authorizer_class_name}: with --processes the brokers ask their controller over a listener that "
            "must know them; name one with a login in controller.listener.names and listeners",
            name="controller.listener.names",
        )
    return Address(CONTROLLER, LOOPBACK, free_port())


def _addresses(setting: str, text: str, free_port: FreePort = lambda: 0) -> list[Address]:
    found = [Address(*parse_address(setting, part)) for part in text.split(",") if part.strip()]
    return [each if each.port else each._replace(port=free_port()) for each in found]


def _shifted(address: Address, number: int, of_controllers: set[str]) -> Address:
    """Return the address of broker `number`. An advertised port 0 stays 0: it is the port of the listener."""
    return (
        address if not address.port or address.name in of_controllers else address._replace(port=address.port + number)
    )


def _check_ports(listening: list[Address], processes: int) -> None:
    """Raise InvalidSetting if two brokers would listen on one port, or on one that does not exist."""
    for place, one in enumerate(listening):
        if one.port + processes > 65_536:
            raise InvalidSetting(
                f"listeners={one}: {processes} brokers take {processes} ports from this one on; choose at most {65_536 - processes}",
                name="listeners",
            )
        for other in listening[place + 1 :]:
            if abs(one.port - other.port) < processes:
                raise InvalidSetting(
                    f"listeners: each of {processes} brokers takes the next port, so {one} and {other} meet; leave {processes} ports between them",
                    name="listeners",
                )
