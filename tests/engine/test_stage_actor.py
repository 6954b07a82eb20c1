"""A stage has an address: messages arrive on its island, it watches and is watched, and it ends with the stage."""

from __future__ import annotations

from streamactors import Flow, GraphStageLogic, Keep, Stage
from streamactors.actors.messages import Actor, ActorExitRequest
from streamactors.actors.running.running_actor import watch_actor
from streamactors.actors.running.supervision import ActorTerminated
from streamactors.engine.stage import element_logic
from streamactors.testing import TestSink, TestSource, assert_all_stages_stopped
from tests.actors.eventually import eventually


class Injecting(GraphStageLogic):
    """Emits the messages of an actor beside the elements of upstream; ends when the actor that it watches ends."""

    def __init__(self):
        self.actor = self.stage_actor(self.received)
        self.changed = False

    def on_push(self, inlet):
        self.push(self.out, self.grab(inlet))

    def received(self, message, sender):
        if isinstance(message, ActorTerminated):
            self.complete_stage()
        elif isinstance(message, tuple):
            self.actor.watch(message[1])
            self.emit(self.out, "watching")
        elif message == "change":
            assert self.stage_actor(self.received_changed) is self.actor
        else:
            self.emit(self.out, message)
            if sender is not None:
                self.actor.send(sender, "done")

    def received_changed(self, message, sender):
        self.emit(self.out, f"changed: {message}")


class Inject(Stage):
    def create(self, attributes):
        logic = Injecting()
        return element_logic(logic), logic.actor.ref


class Idle(Actor):
    def receiveMessage(self, message, sender):
        pass


def run(system):
    graph = TestSource.probe().via_mat(Flow.from_stage(Inject()), Keep.both).to_mat(TestSink.probe(), Keep.both)
    (source, ref), sink = graph.run(system)
    return source, ref, sink


def test_messages_become_calls_on_the_stages_island(actor_system):
    source, ref, sink = run(actor_system)
    sink.request(10)
    ref.tell("told")
    sink.expect_next("told")
    assert actor_system.ask(ref, "asked").result(30) == "done"
    sink.expect_next("asked")
    source.send_next("pushed")
    sink.expect_next("pushed")
    ref.tell("change")
    ref.tell("x")
    sink.expect_next("changed: x")
    sink.cancel()


def test_it_hears_of_the_end_of_what_it_watches(actor_system):
    source, ref, sink = run(actor_system)
    other = actor_system.spawn(Idle)
    sink.request(2)
    ref.tell(("watch", other))
    sink.expect_next("watching")
    other.tell(ActorExitRequest())
    sink.expect_complete()
    source.expect_cancellation()


def test_its_end_is_heard_by_those_who_watch_it(actor_system):
    ended = []

    class Watcher(Actor):
        def receiveMessage(self, message, sender):
            if isinstance(message, ActorTerminated):
                ended.append(message.address)
            elif not isinstance(message, ActorExitRequest):
                watch_actor(self, message)

    with assert_all_stages_stopped(actor_system):
        source, ref, sink = run(actor_system)
        watcher = actor_system.spawn(Watcher)
        watcher.tell(ref)
        sink.ensure_subscription()
        assert actor_system.ask(ref, "in between").result(30) == "done"
        source.send_complete()
        sink.cancel()
    eventually(lambda: ended == [ref])
