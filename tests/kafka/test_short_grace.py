"""Windows after a repartition need a grace above the session timeout: after an instance is killed its rows come that late."""

from __future__ import annotations

import pytest

from streamactors import Sink
from streamactors.kafka import Consumer, Subscriptions
from streamactors.windows import SessionWindows, TimeWindows, UnlimitedWindows


def warnings(caplog) -> list[str]:
    return [message for message in caplog.messages if "is not longer than session.timeout.ms" in message]


@pytest.mark.parametrize(("grace", "told"), [("10s", True), ("20s", True), ("21s", False)])
def test_key_by_with_a_short_grace_is_warned_of_at_the_start(cluster, settings, system, caplog, grace, told):
    cluster.create_topic(f"short-{grace}", 2)
    settings = settings.with_property("session.timeout.ms", "20000")
    rows = Consumer.records(settings, Subscriptions.topics(f"short-{grace}"), key="string")
    counts = rows.key_by(lambda r: r.key).windowed_by(TimeWindows.of_size("1m").with_grace(grace)).count(name="views")
    control = counts.to_stream().to(Sink.ignore()).run(system)
    control.shutdown().result(30)
    assert [line.partition(":")[0] for line in warnings(caplog)] == ([f"views of {settings.group_id}"] if told else [])


def test_only_windows_after_a_repartition_are_warned_of(cluster, settings, system, caplog):
    cluster.create_topic("mixed", 2)
    settings = settings.with_property("session.timeout.ms", "20000")
    topics = Consumer.topics(settings)
    rows = topics.stream("mixed", key="string", value="string")
    soon, later = TimeWindows.of_size("1m").with_grace("10s"), SessionWindows.with_gap("1m").with_grace("21s")
    rows.group_by_key().windowed_by(soon).count(name="direct")
    again = rows.select_key(lambda r: r.value)
    again.group_by_key().windowed_by(soon).count(name="short")
    again.group_by_key().windowed_by(later).count(name="long")
    again.group_by_key().windowed_by(UnlimitedWindows.of()).count(name="open")
    control = topics.graph().run(system)
    control.shutdown().result(30)
    (line,) = warnings(caplog)
    assert line.startswith(f"short of {settings.group_id}: grace 10 s is not longer than session.timeout.ms, 20 s: ")
