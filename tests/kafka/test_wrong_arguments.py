"""Every factory of the connector refuses, while the graph is built, what it cannot work with. The arguments are made from the
annotations, so a new factory is in this test by itself. No broker is asked."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from streamactors import BuildError
from streamactors.kafka import (
    Committer,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerSettings,
    SharedSourceSettings,
    Subscriptions,
    Transactional,
)

FACTORIES = {
    f"{owner.__name__}.{name}": made
    for owner in (Consumer, Producer, Transactional, Committer)
    for name, made in inspect.getmembers(owner, inspect.isfunction)
    if not name.startswith("_")
}
CONSUMER = ConsumerSettings("localhost:1", "g")
PRODUCER = ProducerSettings("localhost:1", transactional_id="t")
WITHOUT_ID = ProducerSettings("localhost:1")
VALID: dict[str, Any] = {
    "ConsumerSettings": CONSUMER,
    "SharedSourceSettings": SharedSourceSettings("localhost:1", "g"),
    "Subscription": Subscriptions.topics("a"),
    "Callable": lambda *_: "x",
    "OffsetsOnAssign": lambda partitions: {},
    "str": "a",
}
OTHERS: dict[str, Any] = {
    "ConsumerSettings": 5,
    "ProducerSettings": 5,
    "CommitterSettings": 5,
    "Subscription": 5,
    "Callable": 5,
    "OffsetsOnAssign": 5,
    "OnRevoke": 5,
    "OffsetOf": 5,
    "SharedProducer": 5,
}
NEEDS_NO_GROUP = {
    "Consumer.records",
    "Consumer.plain_partitioned_manual_offset_source",
    "Consumer.plain_partitioned_source",
    "Consumer.plain_source",
}
"""Sources that commit nothing: with assigned partitions they need no group."""


def kind_of(parameter: inspect.Parameter) -> str:
    return str(parameter.annotation).split("[")[0].split(" | ")[0]


def built(name: str, given: str = "", value: Any = None) -> Any:
    """Return what the factory makes, with this value for a parameter and what fits for all others that it needs."""
    arguments: dict[str, Any] = {}
    for each in inspect.signature(FACTORIES[name]).parameters.values():
        if each.name == given:
            arguments[each.name] = value
        elif each.default is each.empty:
            producer = PRODUCER if name.startswith("Transactional") else WITHOUT_ID
            arguments[each.name] = VALID.get(kind_of(each), producer)
    return FACTORIES[name](**arguments)


PARAMETERS = [
    (name, each.name)
    for name, made in FACTORIES.items()
    for each in inspect.signature(made).parameters.values()
    if kind_of(each) in OTHERS
]


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_takes_what_fits(name: str) -> None:
    assert built(name) is not None


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_factory_refuses_what_it_cannot_work_with(name: str, parameter: str) -> None:
    kind = kind_of(inspect.signature(FACTORIES[name]).parameters[parameter])
    with pytest.raises(BuildError):
        built(name, parameter, OTHERS[kind])


@pytest.mark.parametrize(
    "name", [name for name in FACTORIES if "until" in inspect.signature(FACTORIES[name]).parameters]
)
def test_a_source_ends_never_or_at_the_end_and_nowhere_else(name: str) -> None:
    built(name, "until", "end")
    with pytest.raises(BuildError, match="until"):
        built(name, "until", "soon")


SOURCES = [name for name, made in FACTORIES.items() if "subscription" in inspect.signature(made).parameters]


@pytest.mark.parametrize("name", [*SOURCES, "Consumer.topics"])
def test_a_source_of_topics_needs_a_group(name: str) -> None:
    with pytest.raises(BuildError, match="needs a group_id; give ConsumerSettings"):
        built(name, "settings", ConsumerSettings("localhost:1"))


def test_a_source_that_commits_partitions_names_the_one_that_does_not() -> None:
    """The error advised to assign partitions, which the caller had done."""
    with pytest.raises(BuildError, match=r"or read with Consumer\.plain_source"):
        Consumer.source(ConsumerSettings("localhost:1"), Subscriptions.assignment(("t", 0)))


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_of_assigned_partitions_needs_a_group_if_it_commits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALID, "Subscription", Subscriptions.assignment(("a", 0)))
    if name in NEEDS_NO_GROUP:
        built(name, "settings", ConsumerSettings("localhost:1"))
    else:
        with pytest.raises(BuildError, match="group"):
            built(name, "settings", ConsumerSettings("localhost:1"))
