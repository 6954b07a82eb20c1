"""What `Cluster(…)` takes: the error names each argument of a wrong type, and the form that is meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.cluster.acl import Acl
from streamactors.broker.errors import BrokerStartError

_SEQUENCES: Final = (list, tuple)
_LAST_PORT: Final = 65_535
_SWITCHES: Final = ("process", "tls", "pipelining")


def check_arguments(given: Mapping[str, Any]) -> None:
    """Raise BrokerStartError for an argument of a wrong type."""
    for name in _SWITCHES:
        _require(name, given, isinstance(given[name], bool), "it is True or False")
    users = given["users"]
    if users is not None:
        form = 'it is a mapping of names to passwords, as in {"ann": "secret"}'
        _require("users", given, isinstance(users, Mapping), form)
        for user, password in users.items():
            if not isinstance(user, str) or not isinstance(password, str):
                raise BrokerStartError(f"Cluster: users: the name and the password of {user!r} must be strings")
    acls = given["acls"]
    if acls is not None:
        right = isinstance(acls, (*_SEQUENCES, set, frozenset)) and all(isinstance(each, Acl) for each in acls)
        _require("acls", given, right, "it is a list of Acl, as in [Acl('ann', 'READ', 'TOPIC', 'orders')]")
    for name in ("listen", "advertise"):
        value = given[name]
        texts = isinstance(value, str) or (
            isinstance(value, _SEQUENCES) and all(isinstance(each, str) for each in value)
        )
        _require(name, given, texts, 'it is "host:port", or a list of such strings')
    config = given["config"]
    if config is not None:
        right = isinstance(config, Mapping) and all(isinstance(name, str) for name in config)
        _require("config", given, right, 'it is a mapping of Kafka settings by name, as in {"num.partitions": 3}')
    data = given["data"]
    _require("data", given, data is None or isinstance(data, (str, os.PathLike)), "it is the path of a folder")


def check_port(port: object, brokers: int) -> None:
    """Raise BrokerStartError unless `port` can be that of the first of several brokers, or is None."""
    if port is None:
        return
    if brokers == 1:
        raise BrokerStartError(
            f"Cluster(port={port!r}): port is for several brokers; one takes listen='127.0.0.1:{port}'"
        )
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= _LAST_PORT - brokers + 1:
        raise BrokerStartError(
            f"Cluster(brokers={brokers}, port={port!r}): the brokers take {brokers} ports from this one on; choose 1 to {_LAST_PORT - brokers + 1}"
        )


def _require(name: str, given: Mapping[str, Any], right: bool, form: str) -> None:
    if not right:
        shown = type(given[name]).__name__ if name == "users" else repr(given[name])
        raise BrokerStartError(f"Cluster: {name} is {shown}; {form}")
