"""DescribeCluster names the brokers that have the listener, and fenced ones only when they are asked for (KIP-1073)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.apis.api60_describe_cluster import handle


def broker(broker_id: int, *, fenced: bool, listener: str = "PLAINTEXT") -> Any:
    def endpoint(name: str) -> Any:
        return SimpleNamespace(host=f"h{broker_id}", port=9_092) if name == listener else None

    return SimpleNamespace(broker_id=broker_id, fenced=fenced, rack=None, endpoint=endpoint)


@pytest.mark.parametrize(("with_fenced", "found"), [(False, [(1, False)]), (True, [(1, False), (2, True)])])
def test_fenced_brokers_are_named_when_they_are_asked_for(with_fenced: bool, found: list[tuple[int, bool]]) -> None:
    brokers = [broker(1, fenced=False), broker(2, fenced=True), broker(3, fenced=False, listener="INTERNAL")]
    image = SimpleNamespace(brokers={each.broker_id: each for each in brokers})
    message = SimpleNamespace(
        endpoint_type=1, include_fenced_brokers=with_fenced, include_cluster_authorized_operations=False
    )
    request: Any = SimpleNamespace(
        version=2,
        message=message,
        listener=SimpleNamespace(name="PLAINTEXT"),
        node=SimpleNamespace(metadata=SimpleNamespace(image=image), cluster_id="c", node_id=1),
    )
    assert [(each["broker_id"], each["is_fenced"]) for each in handle(request)["brokers"]] == found
