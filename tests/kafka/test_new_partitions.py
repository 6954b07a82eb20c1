"""Partitions that are added to a subscription whose positions a sink owns: looked for at each refresh, read from their beginning.

The broker is the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka import ConsumerSettings, Subscriptions
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.assignment import new_partitions
from streamactors.kafka.reading.assignment.new_partitions import REFRESH_MS, LookForPartitions, NewPartitions
from streamactors.kafka.subscriptions import TopicPartition

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
LOOK = LookForPartitions()


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = [A0, A1]
        self.calls: list[Any] = []
        self.later: list[tuple[float, Any]] = []
        self.broken = False
        self.partitions = {A0: SimpleNamespace(epoch=4)}
        monkeypatch.setattr(new_partitions, "partitions_of", lambda wanted, client: self.there)
        source = SimpleNamespace(on_positions="on_positions", post=lambda what, given: self.calls.append((what, given)))
        self.shared = SimpleNamespace(
            settings=ConsumerSettings("localhost:1", "g"),
            state=SimpleNamespace(partitions=self.partitions),
            source=source,
            until_end=False,
            stopping=False,
            client=self,
            call_later=lambda ms, then: self.later.append((ms, then)),
            tell=lambda message: self.calls.append(("tell", message)),
        )

    def watermarks(self, keys: list[Any]) -> dict[Any, tuple[int, int]]:
        if self.broken:
            raise KafkaError("away")
        return {key: (10 + key.partition, 99) for key in keys}

    def assign_more(self, starts: dict[Any, int]) -> None:
        self.calls.append(("assign_more", starts))

    def on_assigned(self, keys: list[Any]) -> None:
        self.calls.append(("on_assigned", keys))
        for key in keys:
            self.partitions[key] = SimpleNamespace(epoch=5)

    def made(self, wanted: Any = None) -> NewPartitions:
        wanted = Subscriptions.topics("a") if wanted is None else wanted
        return NewPartitions(self.shared, wanted, self, lambda: self.calls.append(("poll",)))  # type: ignore[arg-type]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_the_first_partitions_are_told_and_the_next_look_is_planned(world: World) -> None:
    world.made().begin({A0: 7})
    assert world.calls == [("on_positions", [(A0, 4, 7)])]
    ((ms, then),) = world.later
    assert ms == REFRESH_MS == 30_000
    then()
    assert isinstance(world.calls[-1][1], LookForPartitions)


def test_a_new_partition_is_read_from_its_beginning_at_once(world: World) -> None:
    world.there = [A0, A1, A2]
    world.made().on_look(LOOK)
    assert world.calls == [
        ("on_assigned", [A1, A2]),
        ("assign_more", {A1: 11, A2: 12}),
        ("on_positions", [(A1, 5, 11), (A2, 5, 12)]),
        ("poll",),
    ]
    assert len(world.later) == 1


def test_a_look_that_finds_nothing_only_plans_the_next(world: World) -> None:
    world.there = [A0]
    world.made().on_look(LOOK)
    assert (world.calls, len(world.later)) == ([], 1)


def test_a_broker_that_is_away_is_asked_again_later(world: World) -> None:
    world.broken = True
    world.made().on_look(LOOK)
    assert (world.calls, len(world.later)) == ([], 1)


def test_a_consumer_that_ends_looks_no_more(world: World) -> None:
    world.shared.stopping = True
    world.made().on_look(LOOK)
    world.shared.stopping, world.shared.client = False, None  # type: ignore[assignment]
    world.made().on_look(LOOK)
    assert (world.calls, world.later) == ([], [])


@pytest.mark.parametrize("how", ["assigned", "bounded", "never"])
def test_where_none_can_come_nothing_is_looked_for(world: World, how: str) -> None:
    wanted = Subscriptions.assignment(("a", 0)) if how == "assigned" else None
    world.shared.until_end = how == "bounded"
    if how == "never":
        world.shared.settings = world.shared.settings.with_property("topic.metadata.refresh.interval.ms", -1)
    world.made(wanted).begin({A0: 7})
    assert world.later == []


def test_the_time_between_two_looks_is_that_of_the_clients_refresh(world: World) -> None:
    world.shared.settings = world.shared.settings.with_property("topic.metadata.refresh.interval.ms", "500")
    world.made().begin({})
    assert [ms for ms, _ in world.later] == [500.0]
