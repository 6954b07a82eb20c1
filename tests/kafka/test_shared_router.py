"""What the shared consumer says of partitions goes to the source of each partition, and to nobody else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka.sources.shared.shared_router import SharedRouter
from streamactors.kafka.subscriptions import TopicPartition

ONE, TWO, LOST, UNSTARTED = (TopicPartition("t", number) for number in range(4))
EVENTS = ["on_assigned", "on_positions", "on_revoking", "on_revoked", "on_idle", "on_end"]


class Noting:
    """A reading source: notes the name of each event with its argument."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def post(self, handler: Any, argument: Any) -> None:
        handler(argument)

    def __getattr__(self, name: str) -> Any:
        return lambda argument: self.heard.append((name, argument))


@pytest.mark.parametrize("event", EVENTS)
def test_each_source_hears_of_its_own_partitions(event: str) -> None:
    first, second = Noting(), Noting()
    owners = {
        ONE: SimpleNamespace(source=first),
        TWO: SimpleNamespace(source=second),
        UNSTARTED: SimpleNamespace(source=None),
    }
    router = SharedRouter(owners, lambda error: None)  # type: ignore[arg-type]
    keys = [ONE, LOST, TWO, UNSTARTED]
    told: list[Any] = keys if event == "on_revoking" else [(key, at) for at, key in enumerate(keys)]
    router.post(getattr(router, event), told)
    assert first.heard == [(event, [told[0]])]
    assert second.heard == [(event, [told[2]])]
