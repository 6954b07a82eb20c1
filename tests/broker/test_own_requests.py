"""Requests that a broker or a client of this package sends by itself: each constant has the key of the API that it is named after, and
a version that is served here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import streamactors.broker
from streamactors.broker import apis, controller_apis
from streamactors.broker.protocol.api_keys import NAMES
from streamactors.broker.requests.api import Routes

OLDER = {
    "streamactors.broker.controller.own_replica._API_VERSIONS": 4,  # a voter may be older, and 5 asks for nothing that is needed
    "streamactors.broker.cluster.acked.FETCH": 12,  # the last version with names of topics
    "streamactors.broker.cluster.view.METADATA": 12,
    "streamactors.broker.membership.discovery.DESCRIBE_CLUSTER": 1,  # the first version with controllers
    "streamactors.broker.replication.replica_fetcher.LIST_OFFSETS": 7,
}
"""Versions that are older than the newest one that is served, because that is all the asker needs."""

OTHER_NAMES = {
    "_UPDATE_VOTER": "update_raft_voter",
    "ALTER_SCRAM": "alter_user_scram_credentials",
    "AUTHENTICATE": "sasl_authenticate",
    "BEGIN_EPOCH": "begin_quorum_epoch",
    "DESCRIBE_SCRAM": "describe_user_scram_credentials",
    "END_EPOCH": "end_quorum_epoch",
    "HANDSHAKE": "sasl_handshake",
}


def _requests() -> Iterator[tuple[str, int, int]]:
    """Yield the name, the key and the version of each constant that is a pair of numbers and named after an API."""
    for info in pkgutil.walk_packages(streamactors.broker.__path__, "streamactors.broker."):
        if info.name.endswith(("__main__", "child_process")):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            api = OTHER_NAMES.get(name, name.lower().strip("_"))
            if api in NAMES.values() and type(value) is tuple and [type(part) for part in value] == [int, int]:
                yield f"{info.name}.{name}", *value


REQUESTS = sorted(_requests())
SERVED = {key: high for package in (apis, controller_apis) for key, _, high in Routes.of_package(package).ranges}
"""The newest version that is served of each API."""


@pytest.mark.parametrize(("name", "key", "version"), REQUESTS, ids=[name for name, _, _ in REQUESTS])
def test_a_request_has_the_key_and_a_served_version_of_the_api_that_it_is_named_after(
    name: str, key: int, version: int
) -> None:
    last = name.rpartition(".")[2]
    assert NAMES[key] == OTHER_NAMES.get(last, last.lower().strip("_"))
    assert version == OLDER.get(name, SERVED.get(key))
