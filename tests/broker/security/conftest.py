"""A cluster with logins and the authoriser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.broker import Acl, Cluster

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DOORS = ((False, ("ann",)), (True, ("ann",)), (True, ()))


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """With logins and the authoriser; `boss` may do everything."""
    everything = [Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    everything.append(Acl("boss", "ALL", "CLUSTER"))
    with Cluster(users={"boss": "b", "ann": "a"}, acls=everything) as running:
        running.create_topic("t")
        yield running
