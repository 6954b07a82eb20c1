"""Actors before and behind a stream."""

from __future__ import annotations

import pytest

from streamactors import Keep, Sink, Source
from streamactors.actors.messages import Actor, ActorExitRequest
from streamactors.actors.running.running_actor import watch_actor
from streamactors.actors.running.supervision import ActorTerminated
from streamactors.errors import ActorError, BufferOverflow, StreamError
from streamactors.stages.sources.actor_ref import StreamCompleted, StreamFailed
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped
from tests.actors.eventually import eventually

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def fed(system, source):
    return source.to_mat(TestSink.probe(), Keep.both).run(system)


class Listener(Actor):
    """Records its messages, and answers on request."""

    def __init__(self, answer="ack", silent=False):
        super().__init__()
        self.heard = []
        self.senders = []
        self.answer = answer
        self.silent = silent

    def receiveMessage(self, message, sender):
        if isinstance(message, ActorExitRequest):
            return
        self.heard.append(message)
        self.senders.append(sender)
        if not self.silent and not isinstance(message, StreamCompleted | StreamFailed):
            self.send(sender, self.answer)


def test_messages_become_elements(actor_system):
    ref, sink = fed(actor_system, Source.actor_ref(10))
    for x in ("a", None, 3):
        ref.tell(x)
    sink.request(5).expect_next("a", None, 3)
    ref.tell("b")
    sink.expect_next("b")
    ref.tell(StreamCompleted())
    ref.tell("behind the end")
    sink.expect_complete()


@pytest.mark.parametrize(
    ("overflow", "left"),
    [("drop_head", [2, 3]), ("drop_tail", [0, 3]), ("drop_buffer", [2, 3]), ("drop_new", [0, 1])],
)
def test_what_does_not_fit_is_dropped_as_told(actor_system, virtual_clock, overflow, left):
    ref, sink = fed(actor_system, Source.actor_ref(2, overflow))
    for x in range(4):
        ref.tell(x)
    virtual_clock.settle()
    ref.tell(StreamCompleted())
    sink.request(5).expect_next_n(left)
    sink.expect_complete()


def test_what_does_not_fit_may_fail_the_stream(actor_system):
    ref, sink = fed(actor_system, Source.actor_ref(1, "fail"))
    ref.tell(1)
    ref.tell(2)
    assert "the buffer of 1 is full" in str(sink.expect_subscription_and_error(BufferOverflow, signal_demand=False))


def test_a_source_ends_on_messages_of_the_users_own_kind(actor_system):
    source = Source.actor_ref(
        5,
        complete_when=lambda message: message == "stop",
        fail_when=lambda message: message if isinstance(message, ValueError) else None,
    )
    ref, sink = fed(actor_system, source)
    ref.tell(StreamCompleted())  # an element like any other now
    ref.tell("stop")
    sink.request(3).expect_next(StreamCompleted()).expect_complete()
    ref, sink = fed(actor_system, source)
    ref.tell(ValueError("mine"))
    sink.expect_subscription_and_error(ValueError)
    ref, sink = fed(actor_system, source)
    ref.tell("held")
    ref.tell(ActorExitRequest())
    sink.request(1).expect_next("held").expect_complete()
    ref, sink = fed(actor_system, Source.actor_ref(5))
    ref.tell(StreamFailed(KeyError("k")))
    sink.expect_subscription_and_error(KeyError)


def test_messages_after_the_end_are_dead_letters(actor_system):
    with assert_all_stages_stopped(actor_system):
        ref, sink = fed(actor_system, Source.actor_ref(5))
        sink.ensure_subscription().cancel()
    seen = []
    subscription = actor_system.dead_letters.subscribe(lambda envelope: seen.append(envelope.deadMessage))
    ref.tell("too late")
    subscription.cancel()
    assert seen == ["too late"]
    with pytest.raises(ActorError):
        actor_system.ask(ref, "anybody there?").result(30)


def test_actors_can_watch_a_stream(actor_system):
    seen = []

    class Watcher(Actor):
        def receiveMessage(self, message, sender):
            if isinstance(message, ActorTerminated):
                seen.append(message.address)
            elif not isinstance(message, ActorExitRequest):
                watch_actor(self, message)

    watcher = actor_system.spawn(Watcher)
    ref, sink = fed(actor_system, Source.actor_ref(5))
    watcher.tell(ref)
    sink.ensure_subscription().cancel()
    eventually(lambda: seen == [ref])
    watcher.tell(ref)  # it has ended already
    eventually(lambda: seen == [ref, ref])


def test_each_element_is_acknowledged_when_it_has_gone_downstream(actor_system):
    ref, sink = fed(actor_system, Source.actor_ref_with_backpressure("ack"))
    first = actor_system.ask(ref, "a")
    sink.ensure_subscription().expect_no_message("20ms")
    assert not first.done()
    sink.request(2).expect_next("a")
    assert first.result(30) == "ack"
    assert actor_system.ask(ref, "b").result(30) == "ack"
    last = actor_system.ask(ref, "c")
    sink.expect_next("b")
    ref.tell(StreamCompleted())
    sink.request(1).expect_next("c").expect_complete()
    assert last.result(30) == "ack"


def test_a_sender_that_does_not_wait_fails_the_stream(actor_system):
    ref, sink = fed(actor_system, Source.actor_ref_with_backpressure("ack"))
    ref.tell("a")
    ref.tell("b")
    assert "'b' came before" in str(sink.expect_subscription_and_error(StreamError, signal_demand=False))


# ── the sink ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def listening(system, listener, **options):
    ref = system.spawn(listener)
    sink = Sink.actor_ref_with_backpressure(ref, **options)
    return ref, *TestSource.probe().to_mat(sink, Keep.both).run(system)


def test_the_actor_gets_one_element_after_each_answer(actor_system):
    listener = Listener(silent=True)
    _, source, done = listening(actor_system, listener, on_init="init", ack="ack")
    eventually(lambda: listener.heard == ["init"])
    source.expect_no_message("20ms")  # no demand before the answer
    me = listener.senders[0]
    me.tell("not the answer")
    me.tell("ack")
    source.send_next(1, None, 3)
    eventually(lambda: listener.heard == ["init", 1])
    me.tell("ack")
    eventually(lambda: listener.heard == ["init", 1, None])
    source.send_complete()
    me.tell("ack")
    eventually(lambda: listener.heard == ["init", 1, None, 3])
    assert not done.done()
    me.tell("ack")
    assert done.result(30) is None
    eventually(lambda: listener.heard[-1] == StreamCompleted())


def test_the_actor_is_told_of_a_failure_at_once(actor_system):
    listener = Listener(silent=True)
    _, source, done = listening(actor_system, listener, on_failure=lambda error: ("failed", error))
    source.send_next(1, 2)
    eventually(lambda: listener.heard == [1])
    error = ValueError("upstream")
    source.send_error(error)
    eventually(lambda: listener.heard == [1, ("failed", error)])
    with pytest.raises(ValueError, match="upstream"):
        done.result(30)


def test_the_end_of_the_actor_cancels_the_stream(actor_system):
    with assert_all_stages_stopped(actor_system):
        ref, source, done = listening(actor_system, Listener())
        source.send_next(1)
        ref.tell(ActorExitRequest())
        source.expect_cancellation()
    with pytest.raises(ActorError, match="has ended while the stream was running"):
        done.result(30)


def test_a_whole_stream_through_an_actor(actor_system):
    listener = Listener(answer=object())
    done = Source.range(500).run_with(
        Sink.actor_ref_with_backpressure(actor_system.spawn(listener), on_complete="the end"), actor_system
    )
    done.result(30)
    eventually(lambda: listener.heard == [*range(500), "the end"])


def test_K_10_a_mark_is_done_when_the_actor_has_answered(actor_system):
    listener, positions = Listener(silent=True), []
    source = Source.range(4).max_chunk(2).with_replay(on_done=positions.append)
    done = source.run_with(Sink.actor_ref_with_backpressure(actor_system.spawn(listener)), actor_system)
    for n in range(1, 5):
        eventually(lambda n=n: len(listener.heard) == n)
        assert all(position < n for position in positions)
        listener.senders[0].tell("ack")
    done.result(30)
    assert positions == sorted(positions)
    assert positions[-1] == 4
