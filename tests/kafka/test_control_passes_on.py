"""Controls that stand for another one have every public name of a control, with that one's value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.actors.futures import StreamFuture
from streamactors.errors import UnknownStore
from streamactors.kafka import (
    Consumer,
    Control,
    DrainingControl,
    NoopControl,
    RestartControl,
    SharedSourceSettings,
    Subscriptions,
)

METHODS = {name for name in dir(Control) if not name.startswith("_")}
DATA = {name for name in vars(Control()) if not name.startswith("_")}
OWN = {"is_shutdown", "started", "completion", "is_draining"}
"""What a control of restarts has of its own: it outlives its instances."""
CALLS: dict[str, tuple[Any, ...]] = {
    "attach": (None, None),
    "closed": ({},),
    "drain": (),
    "drain_and_shutdown": (),
    "follower": (lambda: None,),
    "store": ("views",),
    "pause": (("a", 0),),
    "resume": (("a", 0),),
}


class Told(Control):
    """Answers each call with its name."""

    def __getattribute__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *_, **__: name
        return super().__getattribute__(name)


def test_a_draining_control_has_every_attribute_of_its_control() -> None:
    inner = Control()
    control: DrainingControl[None] = DrainingControl(inner, StreamFuture("done"))
    for name in DATA:
        assert getattr(control, name) is getattr(inner, name), name
        setattr(control, name, object())
        assert getattr(control, name) is getattr(inner, name), name


@pytest.mark.parametrize("name", sorted(METHODS - {"shutdown", "metrics"}))
def test_a_draining_control_passes_every_call_on(name: str) -> None:
    control: DrainingControl[None] = DrainingControl(Told(), StreamFuture("done"))
    assert getattr(control, name)(*CALLS.get(name, ())) in {name, None}
    if name not in {"stop", "stop_at_end", "pause", "resume", "attach", "closed"}:
        assert getattr(control, name)(*CALLS.get(name, ())) == name


def test_a_control_of_restarts_has_the_attributes_of_the_running_instance() -> None:
    control = RestartControl()
    before = {name: getattr(control, name) for name in DATA}
    assert before["graph"] == ""
    instance = Control()
    control._take_over(instance)
    for name in DATA - OWN:
        value = object()
        setattr(instance, name, value)
        assert getattr(control, name) is value, name
    assert all(getattr(control, name) is before[name] for name in OWN)


def test_a_control_of_restarts_answers_a_question_for_the_snapshot() -> None:
    control = RestartControl()
    assert control.ask_snapshot().result(30)["restarts"] == 0
    for _ in range(2):
        control._take_over(NoopControl())
    assert control.ask_snapshot().result(30)["restarts"] == 1


def test_a_draining_control_of_a_run_answers_as_its_control(settings, topic_with, system) -> None:
    topic = topic_with("passed", [b"x"] * 5)
    source = Consumer.source(settings, Subscriptions.topics(topic))
    control = source.to_mat(Sink.ignore(), DrainingControl.create).run(system)
    control.started.result(60)
    assert control.ask_snapshot().result(60)["joined"]
    assert control.group == settings.group_id
    assert control.run() is not None
    assert len(control.rebalances()) == 1
    with pytest.raises(UnknownStore, match="no store 'views'"):
        control.store("views")
    control.drain_and_shutdown(timeout=60)


def test_a_consumer_has_started_when_it_reads_what_is_written_from_now_on(settings, topic_with, system) -> None:
    """The topic is empty and the consumer begins at its end: what is written before it knows the end would be lost."""
    topic = topic_with("started", [], 3)
    latest = replace(settings, auto_offset_reset="latest")
    control, first = (
        Consumer.source(latest, Subscriptions.topics(topic)).take(3).to_mat(Sink.to_list(), Keep.both).run(system)
    )
    assert not control.started.done()
    control.started.result(60)
    producer = BareProducer({"bootstrap.servers": settings.bootstrap_servers})
    for partition in range(3):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(10) == 0
    assert len(first.result(60)) == 3
    control.is_shutdown.result(60)


@pytest.mark.expects_log("no topic|absent")
def test_a_consumer_that_ends_before_it_has_started_says_so(settings, system) -> None:
    control, done = (
        Consumer.source(settings, Subscriptions.topics("absent")).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    error = control.started.exception(60)
    assert error is control.is_shutdown.exception(60)
    assert done.exception(60) is not None
    stopped = Control()
    stopped.is_shutdown.try_complete(None)
    assert "before it knew its positions" in str(stopped.started.exception(0))


def test_a_shared_source_has_started_when_it_gets_what_is_written_from_now_on(settings, topic_with, system) -> None:
    topic = topic_with("jobs", [], 2)
    shared = SharedSourceSettings(settings.bootstrap_servers, "workers")
    jobs = Consumer.shared_source(shared, Subscriptions.topics(topic)).take(2)
    control, done = jobs.to_mat(Sink.to_list(), Keep.both).run(system)
    control.started.result(60)
    producer = BareProducer({"bootstrap.servers": settings.bootstrap_servers})
    for partition in range(2):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(10) == 0
    assert len(done.result(60)) == 2
    control.is_shutdown.result(60)
