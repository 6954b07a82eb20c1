"""Streams and actors: sinks that tell, questions with a status and with a context, topics, and watching."""

from __future__ import annotations

import pytest

from streamactors import ActorSystem, Flow, FlowWithContext, Keep, PubSub, Sink, Source, StreamCompleted, VirtualClock
from streamactors.actors import Actor, ActorExitRequest, Publish, StatusError, StatusReply, Topic
from streamactors.errors import ActorError, BufferOverflow, BuildError
from streamactors.testing import TestSink, TestSource


@pytest.fixture(scope="module")
def system():
    with ActorSystem("actors and streams", clock=VirtualClock()) as system:
        yield system


class Judge(Actor):
    """Answers an even number with half of it, an odd one with an error, a text with no status."""

    def receiveMessage(self, message, sender):
        if isinstance(message, int):
            odd = message % 2
            self.send(sender, StatusReply.error(f"{message} is odd") if odd else StatusReply.success(message // 2))
        elif isinstance(message, str):
            self.send(sender, message)


class Keeper(Actor):
    """Keeps what it is sent; answers "all?"."""

    def __init__(self):
        self.kept = []

    def receiveMessage(self, message, sender):
        if message == "all?":
            self.send(sender, self.kept)
        elif not isinstance(message, ActorExitRequest):
            self.kept.append(message)


def kept(system, actor):
    return system.ask(actor, "all?").result(30)


def run(source, system):
    return source.run_with(Sink.to_list(), system).result(30)


@pytest.mark.expects_log("skipped: ")
def test_ask_with_status_emits_values_and_fails_with_errors(system):
    judge = system.create_actor(Judge)
    assert run(Source.from_iterable([2, 4]).ask_with_status(judge), system) == [1, 2]
    with pytest.raises(StatusError, match="3 is odd") as caught:
        run(Source.from_iterable([2, 3]).ask_with_status(judge), system)
    assert any("element 3" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match="StatusReply, it sent str 'x'"):
        run(Source.single("x").ask_with_status(judge), system)
    assert run(Source.from_iterable([2, 3, 4]).ask_with_status(judge).on_error_continue(), system) == [1, 2]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_how_the_input_is_cut_changes_neither_answers_nor_watched_elements(system, size):
    judge, numbers = system.create_actor(Judge), range(0, 20, 2)
    source = Source.from_iterable(numbers).max_chunk(size).async_boundary(size)
    assert run(source.ask_with_status(judge), system) == [n // 2 for n in numbers]
    assert run(source.watch(judge), system) == list(numbers)


def test_ask_with_context_sends_the_element_alone(system):
    judge = system.create_actor(Judge)
    source = Source.from_iterable([2, 4]).with_context(lambda x: f"at {x}")
    assert run(source.ask_with_status(judge).as_source(), system) == [(1, "at 2"), (2, "at 4")]
    echo = FlowWithContext.identity().ask(judge, "1s", 4)
    assert run(Source.from_iterable(["a"]).with_context(len).via(echo).as_source(), system) == [("a", 1)]


def test_an_actor_ref_sink_tells_every_element_and_the_end(system):
    keeper = system.create_actor(Keeper)
    Source.range(3).run_with(Sink.actor_ref(keeper), system).result(30)
    assert kept(system, keeper) == [0, 1, 2, StreamCompleted()]
    failing = Source.failed(ValueError("gone")).run_with(Sink.actor_ref(keeper, on_failure=str), system)
    with pytest.raises(ValueError, match="gone"):
        failing.result(30)
    assert kept(system, keeper)[-1] == "gone"
    with pytest.raises(BuildError, match="ActorRef"):
        Sink.actor_ref("keeper")


def test_an_actor_ref_sink_cancels_when_the_actor_ends(system):
    keeper = system.create_actor(Keeper)
    source, ended = TestSource.probe().to_mat(Sink.actor_ref(keeper), Keep.both).run(system)
    source.expect_request()
    keeper.tell(ActorExitRequest())
    source.expect_cancellation()
    with pytest.raises(ActorError, match="has ended while the stream was running"):
        ended.result(30)


def test_watch_fails_the_stream_when_the_actor_ends(system):
    keeper = system.create_actor(Keeper)
    (source, _), sink = (
        TestSource.probe().via_mat(Flow.watch(keeper), Keep.both).to_mat(TestSink.probe(), Keep.both).run(system)
    )
    sink.request(2)
    source.send_next(1)
    sink.expect_next(1)
    keeper.tell(ActorExitRequest())
    assert "has ended" in str(sink.expect_error(ActorError))
    source.expect_cancellation()
    with pytest.raises(ActorError):
        run(Source.never().watch(keeper), system)


def test_a_topic_passes_each_message_to_every_subscriber(system):
    topic = system.create_actor(Topic)
    sinks = [PubSub.source(topic).run_with(TestSink.probe(), system) for _ in range(2)]
    for sink in sinks:
        sink.request(5)
    system.clock.settle()
    Source.range(2).run_with(PubSub.sink(topic), system).result(30)
    topic.tell(Publish("by hand"))
    for sink in sinks:
        sink.expect_next_n([0, 1, "by hand"])
    sinks[0].cancel()
    system.clock.settle()
    topic.tell(Publish(3))
    sinks[1].expect_next(3)
    topic.tell(ActorExitRequest())
    assert "topic" in str(sinks[1].expect_error(ActorError))


def test_a_slow_subscriber_loses_messages_or_fails_as_it_chose(system):
    topic = system.create_actor(Topic)
    dropping = PubSub.source(topic, 2, "drop_head").run_with(TestSink.probe(), system)
    failing = PubSub.source(topic, 2, "fail").run_with(TestSink.probe(), system)
    for sink in (dropping, failing):
        sink.ensure_subscription()
    system.clock.settle()
    for i in range(4):
        topic.tell(Publish(i))
    failing.expect_error(BufferOverflow)
    dropping.request(2)
    dropping.expect_next_n([2, 3])
    dropping.cancel()
