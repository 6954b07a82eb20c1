"""The port laws of per-element stages, told by probes on either side (cases 1 to 9 of the acceptance list)."""

from __future__ import annotations

import pytest

from streamactors import Flow, GraphStageLogic, Keep, Source, Stage
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.errors import AbruptTermination, ProtocolError
from streamactors.testing import TestSink, TestSource
from tests.actors.eventually import eventually

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def stage_of(logic_class, *arguments):
    """A stage with one inlet and one outlet, whose last logic is `stage.running`."""

    class Custom(Stage):
        name = logic_class.__name__.lower()

        def logic(self):
            self.running = logic_class(*arguments)
            return self.running

    return Custom()


def run(system, stage):
    return TestSource.probe().via(Flow.from_stage(stage)).to_mat(TestSink.probe(), Keep.both).run(system)


class Passing(GraphStageLogic):
    """Passes elements on, and counts its ends."""

    stops = 0

    def on_push(self, inlet):
        self.push(self.out, self.grab(inlet))

    def post_stop(self):
        type(self).stops += 1


def test_1_pulling_twice_fails_the_stage_and_cancels_upstream(actor_system):
    class PullsTwice(Passing):
        def on_pull(self, outlet):
            self.pull(self.in_)
            self.pull(self.in_)

    source, sink = run(actor_system, stage_of(PullsTwice))
    sink.request(1)
    error = sink.expect_error(ProtocolError)
    assert "Cannot pull port (pullstwice.in) twice" in str(error)
    assert source.expect_cancellation_with_cause() is error


@pytest.mark.parametrize("pushes", ["before a pull", "twice"])
def test_2_pushing_without_demand_fails_the_stage(actor_system, pushes):
    class PushesTooMuch(Passing):
        def pre_start(self):
            if pushes == "before a pull":
                self.push(self.out, 1)

        def on_push(self, inlet):
            element = self.grab(inlet)
            self.push(self.out, element)
            self.push(self.out, element)

    source, sink = run(actor_system, stage_of(PushesTooMuch))
    sink.request(1)
    if pushes == "twice":
        source.send_next("x")
        sink.expect_next("x")
    error = sink.expect_error(ProtocolError)
    assert "Cannot push port (pushestoomuch.out) twice, or before it being pulled" in str(error)
    assert source.expect_cancellation_with_cause() is error


@pytest.mark.parametrize("operation", ["pull", "push", "schedule_once", "keep_going", "emit"])
def test_2_ports_are_not_there_yet_in_the_constructor(actor_system, operation):
    class TooEarly(GraphStageLogic):
        def __init__(self):
            arguments = {
                "pull": [None],
                "push": [None, 1],
                "schedule_once": ["t", 1],
                "keep_going": [True],
                "emit": [None, 1],
            }
            with pytest.raises((ProtocolError, AttributeError)) as caught:
                getattr(self, operation)(*arguments[operation])
            assert "not yet initialized" in str(caught.value) or operation in ("pull", "push")

    TooEarly()


def test_3_pulling_without_grabbing_loses_that_element_only(actor_system):
    class Skips(GraphStageLogic):
        first = True

        def on_push(self, inlet):
            if self.first:
                self.first = False
                self.pull(inlet)
            else:
                self.push(self.out, self.grab(inlet))

    source, sink = run(actor_system, stage_of(Skips))
    sink.request(1)
    source.send_next("lost", "kept")
    sink.expect_next("kept")


def test_4_completion_in_the_same_handler_comes_behind_the_element_and_needs_no_demand(actor_system):
    class PushesAndEnds(GraphStageLogic):
        def on_push(self, inlet):
            self.push(self.out, self.grab(inlet))
            self.complete_stage()

    source, sink = run(actor_system, stage_of(PushesAndEnds))
    sink.request(1)
    source.send_next("last")
    sink.expect_next("last").expect_complete()
    assert isinstance(source.expect_cancellation_with_cause(), NonFailureCancellation)


def test_5_a_failure_is_not_delivered_to_one_who_cancelled_in_between(actor_system):
    seen = []

    class PushesAndFails(GraphStageLogic):
        def on_push(self, inlet):
            self.push(self.out, self.grab(inlet))
            self.fail_stage(ValueError("too late"))

    class CancelsOnPush(GraphStageLogic):
        def on_push(self, inlet):
            seen.append(self.grab(inlet))
            self.cancel(inlet)
            self.complete(self.out)

        def on_upstream_failure(self, inlet, error):
            seen.append(error)

    flow = Flow.from_stage(stage_of(PushesAndFails)).via(Flow.from_stage(stage_of(CancelsOnPush)))
    source, sink = TestSource.probe().via(flow).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    sink.request(1)
    source.send_next("x")
    sink.expect_complete()
    source.expect_cancellation()
    assert seen == ["x"]


@pytest.mark.parametrize("first", ["complete", "cancel"])
def test_6_of_completion_and_cancellation_the_first_counts(actor_system, first):
    source, sink = run(actor_system, stage_of(Passing))
    sink.ensure_subscription()
    if first == "complete":
        source.send_complete()
        sink.expect_complete()
        sink.cancel(ValueError("too late"))
        source.expect_no_message("20ms")
    else:
        sink.cancel()
        source.expect_cancellation()
        source.send_error(ValueError("too late"))
        sink.expect_no_message("20ms")


@pytest.mark.parametrize("handler", ["pre_start", "on_pull", "on_push", "on_upstream_finish"])
def test_7_a_handler_that_raises_fails_that_stage_alone(actor_system, handler):
    error = ValueError(f"in {handler}")

    def explode(*_):
        raise error

    class Raises(Passing):
        stops = 0

    setattr(Raises, handler, explode)
    source, sink = run(actor_system, stage_of(Raises))
    sink.request(1)
    if handler == "on_push":
        source.send_next("x")
    if handler == "on_upstream_finish":
        source.send_complete()
    assert sink.expect_error() is error
    if handler != "on_upstream_finish":
        assert source.expect_cancellation_with_cause() is error
    assert Source.range(3).run_with(TestSink.probe(), actor_system).to_strict() == [0, 1, 2]
    assert Raises.stops == 1


def test_8_a_stage_that_keeps_going_outlives_its_ports(actor_system):
    events = []

    class Stays(GraphStageLogic):
        def pre_start(self):
            self.keep_going(True)
            self.end = self.async_callback(lambda _: self.complete_stage())

        def on_push(self, inlet):
            self.push(self.out, self.grab(inlet))

        def on_upstream_finish(self, inlet):
            events.append("upstream finished")
            self.complete(self.out)

        def post_stop(self):
            events.append("stopped")

    stage = stage_of(Stays)
    source, sink = run(actor_system, stage)
    source.send_complete()
    sink.expect_complete().expect_no_message("20ms")
    assert events == ["upstream finished"]
    stage.running.end.invoke_with_feedback(None).result(30)
    eventually(lambda: events == ["upstream finished", "stopped"])


def test_8_without_keep_going_it_ends_with_its_last_port(actor_system):
    stage = stage_of(Passing)
    Passing.stops = 0
    source, sink = run(actor_system, stage)
    late = stage.running.async_callback(print)
    source.send_complete()
    sink.expect_complete()
    with pytest.raises(AbruptTermination):
        late.invoke_with_feedback("too late").result(30)
    assert Passing.stops == 1


def test_9_async_callbacks_wait_for_the_start_and_refuse_after_the_stop(actor_system):
    order = []

    class Called(Passing):
        def __init__(self):
            self.call = self.async_callback(order.append)
            self.feedback = None

        def pre_start(self):
            order.append("started")

    stage = stage_of(Called)
    flow = Flow.from_stage(stage).map_materialized_value(
        lambda _: stage.running.call.invoke_with_feedback("called early")
    )
    (source, early), sink = (
        TestSource.probe().via_mat(flow, Keep.both).to_mat(TestSink.probe(), Keep.both).run(actor_system)
    )
    assert early.result(30) is None
    assert order == ["started", "called early"]
    sink.cancel()
    source.expect_cancellation()
    with pytest.raises(AbruptTermination, match="has stopped"):
        stage.running.call.invoke_with_feedback("too late").result(30)
    assert order == ["started", "called early"]


def test_9_feedback_tells_of_a_handler_that_raises(actor_system):
    class Fragile(Passing):
        def pre_start(self):
            self.call = self.async_callback(lambda x: 1 // x)

    stage = stage_of(Fragile)
    _, sink = run(actor_system, stage)
    sink.ensure_subscription()
    with pytest.raises(ZeroDivisionError):
        stage.running.call.invoke_with_feedback(0).result(30)
    sink.expect_error(ZeroDivisionError)


def test_37_a_cancellation_with_an_error_fails_the_other_outputs_and_a_plain_one_completes_them(actor_system):
    from streamactors import Broadcast, GraphDSL

    for cause in (ValueError("mine"), None):
        with GraphDSL() as g:
            fan = g.add(Broadcast(2, eager_cancel=True))
            g.add(TestSource.probe(), keep=True) >> fan
            fan >> g.add(TestSink.probe(), keep=True)
            fan >> g.add(TestSink.probe(), keep=True)
        source, left, right = g.to_runnable().run(actor_system)
        left.cancel(cause)
        if cause is None:
            right.expect_subscription_and_complete(signal_demand=False)
            assert isinstance(source.expect_cancellation_with_cause(), NonFailureCancellation)
        else:
            assert right.expect_subscription_and_error(ValueError, signal_demand=False) is cause
            assert source.expect_cancellation_with_cause() is cause
