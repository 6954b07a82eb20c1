"""The life of a broker beside a dispatcher of its own: one timer at most, and every request answered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.broker.controller.command import AllocateProducerIds, Outcome, ProducerIdBlock
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.membership.controller_channels import ControllerChannels, NoController
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.membership.lifecycle_state import CaughtUp, Ready, Times
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken
from streamactors.errors import StreamActorsError

BROKER_REGISTRATION, BROKER_HEARTBEAT = (62, 4), (63, 1)
BOOTSTRAP = ("127.0.0.1", 9093)


class FakeChannel:
    """Keeps what is asked of a controller; the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, int], Any, Callable[[ChannelAnswer], object]]] = []
        self.closed: str | None = None
        self.peer_features: dict[str, int] = {}

    def request(self, key: int, version: int, body: Any, then: Callable[[ChannelAnswer], object]) -> None:
        assert self.closed is None
        self.asked.append(((key, version), body, then))

    def close(self, why: str) -> None:
        self.closed = why
        asked, self.asked = self.asked, []
        for _, _, then in asked:
            then(ChannelAnswer(error=ChannelBroken(why)))


class Rig:
    """A broker's life on a dispatcher that works at once and whose time is moved by the test."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.timers: list[SimpleNamespace] = []
        self.stopped = False
        self.channels: list[FakeChannel] = []
        self.failures: list[StreamActorsError] = []
        folders = SimpleNamespace(
            ids=(uuid.UUID(int=1), uuid.UUID(int=2)), failed_ids=[], cordoned_ids=(uuid.UUID(int=2),)
        )
        dispatcher: Any = SimpleNamespace(execute=self._execute, call_at=self._call_at)
        self.node: Any = SimpleNamespace(
            node_id=1,
            cluster_id="c",
            clock=SimpleNamespace(now_ms=lambda: self.now_ms),
            config=SimpleNamespace(broker_rack=None),
            logs=SimpleNamespace(folders=folders),
            metadata=SimpleNamespace(image=MetadataImage()),
            data_plane=dispatcher,
            to_controllers=SimpleNamespace(channel=self._channel),
        )
        self.controllers = ControllerChannels(self.node, dispatcher, NoController())
        self.life = Lifecycle(self.node, dispatcher, self.controllers, [BOOTSTRAP], times=Times(), previous_epoch=4)
        self.life.on_failure(self.failures.append)

    def _execute(self, fn: Callable[[], object]) -> None:
        if self.stopped:
            raise DispatcherStopped("stopped")
        fn()

    def _call_at(self, deadline_ms: float, fn: Callable[[], object]) -> Any:
        timer = SimpleNamespace(deadline_ms=deadline_ms, fn=fn)
        timer.cancel = lambda: self.timers.remove(timer) if timer in self.timers else None
        self.timers.append(timer)
        return timer

    def _channel(self, *_: Any, **__: Any) -> FakeChannel:
        self.channels.append(FakeChannel())
        return self.channels[-1]

    def pass_time(self, ms: float) -> None:
        self.now_ms += ms
        for timer in [each for each in self.timers if each.deadline_ms <= self.now_ms]:
            self.timers.remove(timer)
            timer.fn()

    def controller(self) -> FakeChannel:
        """Return the connection for registration and heartbeats to a controller that leads from now on."""
        self.controllers.leader_changed(3, 1, BOOTSTRAP)
        return self.channels[-2]

    def answer(self, **value: Any) -> None:
        """Answer the request under way, if there is one."""
        for channel in self.channels:
            if channel.asked:
                _, _, then = channel.asked.pop(0)
                defaults = {"error_code": 0, "broker_epoch": 7, "is_fenced": False, "should_shut_down": False}
                then(ChannelAnswer(value=SimpleNamespace(**{**defaults, **value})))
                return

    def caught_up(self) -> None:
        self.life._step(CaughtUp())

    def applied(self, offset: int) -> None:
        own = SimpleNamespace(incarnation_id=self.life._incarnation)
        self.life.applied(SimpleNamespace(offset=offset, brokers={1: own}))  # type: ignore[arg-type]

    def registered(self) -> FakeChannel:
        """Return the connection to the controller that has accepted this broker's registration."""
        channel = self.controller()
        self.caught_up()
        self.answer()
        return channel


COMMAND = AllocateProducerIds((1, 7))
EVENTS = st.lists(
    st.sampled_from(
        ["time", "long", "answer", "fenced", "stale", "error", "leader", "nobody", "applied", "folder", "catch up"]
    ),
    max_size=40,
)


@given(events=EVENTS)
def test_a_life_has_one_timer_at_most_and_one_request_under_way(events: list[str]) -> None:
    """Every step sets a new timer. The timer before it was once forgotten by a mutant: each of them asked forever."""
    rig = Rig()
    what: dict[str, Callable[[], object]] = {
        "time": lambda: rig.pass_time(60.0),
        "long": lambda: rig.pass_time(3_000.0),
        "answer": rig.answer,
        "fenced": lambda: rig.answer(is_fenced=True),
        "stale": lambda: rig.answer(error_code=ErrorCode.STALE_BROKER_EPOCH),
        "error": lambda: rig.answer(error_code=ErrorCode.NOT_CONTROLLER),
        "leader": rig.controller,
        "nobody": lambda: rig.controllers.leader_changed(-1, 2, None),
        "applied": lambda: rig.applied(5),
        "folder": rig.life.folder_failed,
        "catch up": rig.caught_up,
    }
    for number, event in enumerate(events):
        what[event]()
        if number == 3:
            rig.caught_up()
        due = rig.life._life.due_ms
        assert [each.deadline_ms for each in rig.timers] == ([] if due is None else [due])
        assert sum(len(each.asked) for each in rig.channels) <= 1
        assert all(each.closed for each in rig.channels[:-2])  # only the newest controller is connected
    rig.controllers.close()
    rig.life.close()
    assert rig.timers == []
    assert all(each.closed for each in rig.channels)


def test_a_request_goes_to_the_controller_that_leads_by_then() -> None:
    rig = Rig()
    rig.caught_up()  # nobody leads: the registration is tried again
    (timer,) = rig.timers
    first = rig.controller()
    rig.pass_time(timer.deadline_ms - rig.now_ms)
    assert [api for api, *_ in first.asked] == [BROKER_REGISTRATION]
    second = rig.controller()  # the first connection is closed, and its request fails
    assert first.closed == "another controller leads"
    rig.pass_time(1_000.0)
    assert [api for api, *_ in second.asked] == [BROKER_REGISTRATION]
    _, body, _ = second.asked[0]
    assert (body["broker_id"], body["previous_broker_epoch"], body["log_dirs"]) == (
        1,
        4,
        [uuid.UUID(int=1), uuid.UUID(int=2)],
    )
    rig.answer(broker_epoch=11)
    _, heartbeat, _ = second.asked[0]
    assert heartbeat["broker_epoch"] == rig.life.broker_epoch == 11


def test_a_heartbeat_names_the_cordoned_folders_where_the_cluster_has_such_folders() -> None:
    rig = Rig()
    channel = rig.registered()
    ((api, body, _),) = channel.asked
    assert (api, "cordoned_log_dirs" in body) == (BROKER_HEARTBEAT, False)
    rig.answer()
    rig.node.metadata.image = MetadataImage(features={METADATA_VERSION: 30})
    rig.pass_time(10_000.0)
    ((api, body, _),) = channel.asked
    assert (api, body["cordoned_log_dirs"]) == ((BROKER_HEARTBEAT[0], 2), [uuid.UUID(int=2)])


def test_what_waits_for_a_failed_folder_is_told_when_the_controller_knows_it() -> None:
    rig = Rig()
    channel = rig.registered()
    rig.applied(9)
    rig.life._step(Ready())
    rig.answer()
    assert not rig.life.fenced
    told: list[str] = []
    rig.node.logs.folders.failed_ids.append(uuid.UUID(int=2))
    rig.life.folder_failed(lambda: told.append("first"))
    ((api, body, _),) = channel.asked
    assert (api, body["offline_log_dirs"]) == (BROKER_HEARTBEAT, [uuid.UUID(int=2)])
    rig.life.folder_failed(lambda: told.append("second"))  # behind the heartbeat under way: not in that heartbeat
    rig.answer(error_code=ErrorCode.NOT_CONTROLLER)
    assert told == []
    rig.pass_time(1_000.0)
    rig.life.folder_failed(lambda: told.append("third"))
    rig.answer()
    assert told == ["first", "second"]
    rig.answer()  # the next heartbeat went out at once
    assert told == ["first", "second", "third"]


@pytest.mark.expects_log("cannot join its cluster")
def test_a_broker_that_is_refused_ends_every_wait_once() -> None:
    rig = Rig()
    rig.controller()
    rig.caught_up()
    rig.answer(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    (failure,) = rig.failures
    assert isinstance(failure, BrokerStartError)
    assert "are not of cluster c" in str(failure)
    rig.life.fail(BrokerStartError("a second one"))
    assert rig.failures == [failure]
    for wait in (lambda: rig.life.register(()), rig.life.ready):
        with pytest.raises(BrokerStartError, match="are not of cluster c"):
            wait()
    assert rig.life.leave(300.0) == -1


def test_a_life_whose_thread_has_ended_answers_at_once() -> None:
    rig = Rig()
    rig.registered()
    rig.stopped = True
    rig.life.folder_failed()
    rig.controllers.submit(COMMAND, lambda answer: None)
    assert rig.life.leave(300.0) == -1


def test_other_requests_have_a_connection_of_their_own_and_fail_when_nobody_leads() -> None:
    rig = Rig()
    answers: list[Any] = []
    rig.controllers.submit(COMMAND, answers.append)
    assert answers == [Outcome(ErrorCode.NOT_CONTROLLER, "no controller leads at the moment")]
    heartbeats = rig.registered()
    rig.controllers.submit(COMMAND, answers.append)
    (request,) = rig.channels[-1].asked
    assert rig.channels[-1] is not heartbeats
    assert request[:2] == ((67, 0), {"broker_id": 1, "broker_epoch": 7})
    request[2](ChannelAnswer(value=SimpleNamespace(error_code=0, producer_id_start=3_000, producer_id_len=1_000)))
    assert answers[1] == ProducerIdBlock(3_000, 1_000)


def test_a_broker_that_cannot_join_says_how_the_cluster_is_formatted_for_it(caplog: pytest.LogCaptureFixture) -> None:
    # The log said that the broker was no member of its cluster any more, which it never was, and the advice cannot be followed for metadata.version.
    rig = Rig()
    channel = rig.controller()
    channel.peer_features = {"metadata.version": 34, "streams.version": 2, "share.version": 3, "new.version": 1}
    rig.caught_up()
    rig.answer(error_code=ErrorCode.UNSUPPORTED_VERSION)
    (failure,) = rig.failures
    assert "metadata.version=34, new.version=1, share.version=3, streams.version=2" in str(failure)
    most = {each.name: each.max_level for each in SUPPORTED}
    levels = {"new.version": 0, "share.version": most["share.version"], "streams.version": most["streams.version"]}
    advice = " ".join(f"--feature {name}={level}" for name, level in levels.items())
    assert str(failure).endswith(f"; format its controllers with --release-version 4.4 {advice}")
    assert "this broker cannot join its cluster: the cluster has features enabled" in caplog.text
    assert "no member" not in caplog.text


def test_a_member_that_is_refused_says_that_it_is_one_no_more(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.registered()
    rig.life.fail(BrokerStartError("the controllers forgot it"))
    assert "this broker is not a member of its cluster any more: the controllers forgot it" in caplog.text
