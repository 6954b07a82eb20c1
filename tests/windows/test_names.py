"""Names become parts of the names of topics: what no topic can be named is refused at the line that wrote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.windows import KeyValueStore, SessionStore, Suppressed, TimeWindows, VersionedStore, WindowStore
from streamactors.windows.definitions.names import checked_name, topic_of
from streamactors.windows.topology.topics import TopologyTopics

TEN = TimeWindows.of_size(10).with_grace(0)


def topics() -> TopologyTopics:
    return TopologyTopics("strict")


def records() -> Any:
    return Consumer.records(ConsumerSettings("nobody:1", "g"), Subscriptions.topics("in"))


WRITTEN: dict[str, Callable[[str], Any]] = {
    "count": lambda name: topics().stream("s").group_by_key().count(name=name),
    "windowed count": lambda name: topics().stream("s").group_by_key().windowed_by(TEN).count(name=name),
    "table": lambda name: topics().table("t", name=name),
    "view": lambda name: topics().table("t").filter(bool, name=name),
    "repartition": lambda name: topics().stream("s").repartition(name=name),
    "group": lambda name: topics().stream("s").group_by(lambda row: 1, name=name),
    "records": lambda name: records().group_by_key().count(name=name),
    "KeyValueStore": KeyValueStore,
    "WindowStore": lambda name: WindowStore(name, 10),
    "SessionStore": lambda name: SessionStore(name, 10),
    "VersionedStore": lambda name: VersionedStore(name, 10),
}


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize(
    ("name", "bad", "better"),
    [("größe", "'öß'", "'grosse'"), ("per hour", "' '", "'per-hour'"), ("a/b", "'/'", "'a-b'")],
)
def test_a_name_that_no_topic_can_have_is_refused_where_it_is_written(
    kind: str, name: str, bad: str, better: str
) -> None:
    # the run failed 3 s after its start, with the name of a changelog topic
    with pytest.raises(BuildError, match=rf"the name '{name}' has {bad}.* letters a to z .*name={better}, for example"):
        WRITTEN[kind](name)


def test_a_name_of_suppressed_is_checked_as_well() -> None:
    from streamactors.windows import BufferConfig

    with pytest.raises(BuildError, match="Suppressed: the name 'per hour' has ' '"):
        Suppressed.until_time_limit(1, BufferConfig.unbounded()).with_name("per hour")


def test_a_name_without_a_letter_that_a_topic_takes_has_an_example_too() -> None:
    with pytest.raises(BuildError, match="name='counts', for example"):
        checked_name("count", "数")
    with pytest.raises(BuildError, match=r"count: name is ''"):
        checked_name("count", "")


def a_group_of(build: Callable[[Any], Any], group: str) -> Any:
    of_group = Consumer.topics(ConsumerSettings("nobody:1", group))
    build(of_group)
    return of_group.graph()


@pytest.mark.parametrize(
    "build",
    [
        lambda topics: topics.stream("s").group_by_key().count().to("out"),
        lambda topics: topics.table("t", name="people"),
        lambda topics: topics.stream("s").repartition().to("out"),
    ],
)
def test_a_group_whose_topics_could_not_be_named_is_refused_where_it_keeps_a_state(build: Callable[[Any], Any]) -> None:
    with pytest.raises(BuildError, match=r"the group 'my app' has ' '.*group_id='my-app', for example"):
        a_group_of(build, "my app")


def test_a_group_without_a_state_may_have_any_name() -> None:
    assert a_group_of(lambda topics: topics.stream("s").filter(bool).to("out"), "my app") is not None


def test_a_topic_with_too_long_a_name_is_refused() -> None:
    assert len(topic_of("count", "g", "n" * 237, "changelog")) == 249
    with pytest.raises(
        BuildError, match="a name of 250 characters, 249 are allowed; give the step or the group a shorter name"
    ):
        topic_of("count", "g", "n" * 238, "changelog")
