"""The life of a broker in a cluster: registration, heartbeats, fencing and the departure, with no clock and no socket."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.lifecycle_state import (
    LEAVING_MS,
    RETRY_MS,
    RETRY_REGISTRATION_MS,
    SOON_MS,
    Applied,
    CaughtUp,
    Effect,
    Event,
    Fail,
    FencingChanged,
    FolderFailed,
    HeartbeatAnswered,
    Life,
    LifecyclePhase,
    LifecycleTick,
    MayStop,
    Ready,
    Registered,
    SendHeartbeat,
    SendRegistration,
    StopAsked,
    Times,
    Unreachable,
    step,
)
from streamactors.broker.server.quorum_of_several import times_of

NONE = ErrorCode.NONE


@dataclass
class Driver:
    """Feeds events to a life, and keeps what it wants done."""

    life: Life = field(default_factory=Life)
    now_ms: float = 1_000.0

    def __call__(self, event: Event, *, after_ms: float = 0.0) -> list[Effect]:
        self.now_ms += after_ms
        self.life, effects = step(self.life, event, self.now_ms)
        return effects

    def wait(self) -> list[Effect]:
        """Let the time pass until the next request is due."""
        assert self.life.due_ms is not None
        return self(LifecycleTick(), after_ms=max(self.life.due_ms - self.now_ms, 0))


def registered() -> Driver:
    driver = Driver()
    assert driver(CaughtUp()) == [SendRegistration()]
    assert driver(Registered(NONE, 70)) == [SendHeartbeat(70, -1, want_fence=True, want_shut_down=False)]
    return driver


def unfenced() -> Driver:
    driver = registered()
    driver(HeartbeatAnswered(NONE, is_fenced=True))
    driver(Ready())
    assert driver(Applied(75, 72)) == [SendHeartbeat(70, 75, want_fence=False, want_shut_down=False)]
    assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == [FencingChanged(fenced=False)]
    return driver


def test_a_broker_asks_to_serve_only_when_it_has_applied_its_own_registration_and_is_ready() -> None:
    driver = registered()
    driver(HeartbeatAnswered(NONE, is_fenced=True))
    assert driver(Ready()) == []
    assert driver(Applied(71)) == []  # the epoch is 70, but the record itself comes later
    (heartbeat,) = driver.wait()
    assert isinstance(heartbeat, SendHeartbeat)
    assert heartbeat.want_fence
    driver(HeartbeatAnswered(NONE, is_fenced=True))
    assert driver(Applied(72, 72)) == [SendHeartbeat(70, 72, want_fence=False, want_shut_down=False)]


def test_an_unfenced_broker_sends_a_heartbeat_per_interval_with_the_newest_offset() -> None:
    driver = unfenced()
    start_ms = driver.now_ms
    for beat in range(3):
        driver(Applied(80 + beat))
        assert driver.wait() == [SendHeartbeat(70, 80 + beat, want_fence=False, want_shut_down=False)]
        assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == []
    assert driver.now_ms - start_ms == 3 * driver.life.times.heartbeat_ms


def test_the_failure_of_a_folder_is_told_at_once() -> None:
    driver = unfenced()
    told = SendHeartbeat(70, 75, want_fence=False, want_shut_down=False)
    assert driver(FolderFailed()) == [told]
    assert driver(FolderFailed()) == []  # a heartbeat is under way, and may not name the second folder
    assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == [told]
    assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == []


def test_a_fenced_broker_is_unfenced_by_one_heartbeat_without_a_new_registration() -> None:
    driver = unfenced()
    driver.wait()
    assert driver(HeartbeatAnswered(NONE, is_fenced=True)) == [FencingChanged(fenced=True)]
    assert driver.wait() == [SendHeartbeat(70, 75, want_fence=False, want_shut_down=False)]
    assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == [FencingChanged(fenced=False)]


def test_a_stale_epoch_leads_to_a_new_registration_which_must_be_applied_again() -> None:
    driver = unfenced()
    driver.wait()
    assert driver(HeartbeatAnswered(ErrorCode.STALE_BROKER_EPOCH, is_fenced=True)) == [
        FencingChanged(fenced=True),
        SendRegistration(),
    ]
    (heartbeat,) = driver(Registered(NONE, 90))
    assert heartbeat == SendHeartbeat(90, 75, want_fence=True, want_shut_down=False)
    driver(HeartbeatAnswered(NONE, is_fenced=True))
    assert driver(Applied(91, 91)) == [SendHeartbeat(90, 91, want_fence=False, want_shut_down=False)]


def test_the_session_of_an_earlier_process_is_waited_for() -> None:
    driver = Driver()
    driver(CaughtUp())
    for _ in range(40):  # 8 s of a session of 9 s
        assert driver(Registered(ErrorCode.DUPLICATE_BROKER_REGISTRATION)) == []
        assert driver.wait() == [SendRegistration()]
    driver(Registered(NONE, 5))
    assert driver.life.phase is LifecyclePhase.FENCED


@pytest.mark.parametrize("error", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, None])
def test_a_registration_that_never_succeeds_ends_with_its_reason(error: ErrorCode | None) -> None:
    driver = Driver()
    effects = driver(CaughtUp())
    while effects == [SendRegistration()]:
        effects = driver(Unreachable() if error is None else Registered(error)) or driver.wait()
    assert effects == [Fail(error or ErrorCode.BROKER_NOT_AVAILABLE)]
    assert driver.now_ms - 1_000 >= driver.life.times.registration_timeout_ms


def test_a_refusal_for_good_ends_at_once() -> None:
    driver = Driver()
    driver(CaughtUp())
    assert driver(Registered(ErrorCode.UNSUPPORTED_VERSION)) == [Fail(ErrorCode.UNSUPPORTED_VERSION)]
    assert driver(LifecycleTick(), after_ms=10_000) == []


def test_a_departure_waits_until_the_controller_has_moved_the_leaderships() -> None:
    driver = unfenced()
    assert driver(StopAsked()) == [SendHeartbeat(70, 75, want_fence=False, want_shut_down=True)]
    assert driver(HeartbeatAnswered(NONE, is_fenced=False)) == []
    assert driver.wait() == [SendHeartbeat(70, 75, want_fence=False, want_shut_down=True)]
    assert driver(HeartbeatAnswered(NONE, is_fenced=True, should_shut_down=True)) == [MayStop(granted=True)]
    assert driver(LifecycleTick(), after_ms=60_000) == []


def test_a_departure_that_no_controller_answers_ends_after_its_time() -> None:
    driver = unfenced()
    driver.life, _ = step(driver.life, StopAsked(), driver.now_ms)
    effects: list[Effect] = []
    while effects != [MayStop(granted=False)]:
        effects = driver(Unreachable()) or driver.wait()
    assert driver.now_ms >= driver.life.times.leaving_timeout_ms


def test_a_broker_that_is_not_registered_may_stop_at_once() -> None:
    driver = Driver()
    driver(CaughtUp())
    assert driver(StopAsked()) == [MayStop(granted=False)]


answers = st.one_of(
    st.builds(Registered, st.sampled_from([NONE, ErrorCode.DUPLICATE_BROKER_REGISTRATION]), st.integers(1, 99)),
    st.builds(
        HeartbeatAnswered,
        st.sampled_from([NONE, NONE, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER]),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Unreachable),
)
others = st.one_of(
    st.builds(Applied, st.integers(0, 200), st.integers(-1, 200)),
    st.builds(Ready),
    st.builds(CaughtUp),
    st.builds(LifecycleTick),
    st.builds(StopAsked),
)


@given(st.lists(st.tuples(st.booleans(), answers, others, st.integers(0, 3_000)), max_size=60))
def test_whatever_happens_one_request_is_under_way_and_the_next_one_is_due(
    script: list[tuple[bool, Event, Event, int]],
) -> None:
    driver = Driver(Life(Times(registration_timeout_ms=10_000, leaving_timeout_ms=10_000)))
    under_way: Effect | None = None
    for answered, answer, other, after_ms in script:
        matching = {SendRegistration: (Registered, Unreachable), SendHeartbeat: (HeartbeatAnswered, Unreachable)}
        event = other
        if answered and under_way is not None and isinstance(answer, matching[type(under_way)]):
            event, under_way = answer, None
        if isinstance(event, Applied):  # what is applied never goes back, and a registration is seen when it is applied
            offset = max(event.offset, driver.life.applied)
            event = Applied(offset, min(event.registered_at, offset))
        for effect in driver(event, after_ms=after_ms):
            if isinstance(effect, SendRegistration | SendHeartbeat):
                assert under_way is None
                under_way = effect
            if isinstance(effect, SendHeartbeat):
                assert effect.broker_epoch == driver.life.broker_epoch >= 1
                assert effect.want_fence or effect.want_shut_down or driver.life.registered_at <= effect.offset
        sleeping = driver.life.phase in (LifecyclePhase.CATCHING_UP, LifecyclePhase.ENDED)
        assert sleeping or (under_way is None) == (driver.life.due_ms is not None)


def test_a_registration_is_given_up_at_its_time_and_not_a_moment_before() -> None:
    for after_ms, ends in ((59_999.0, False), (60_000.0, True)):
        driver = Driver()
        driver(CaughtUp())
        effects = driver(Unreachable(), after_ms=after_ms)
        assert (effects == [Fail(ErrorCode.BROKER_NOT_AVAILABLE)]) == ends


def test_the_times_are_those_that_apache_kafka_has_without_settings() -> None:
    times = times_of(BrokerConfig.of({}))
    assert (times.heartbeat_ms, times.session_ms, times.registration_timeout_ms) == (2_000, 9_000, 60_000)
    assert replace(Times(), leaving_timeout_ms=times.leaving_timeout_ms) == times


@pytest.mark.parametrize(
    ("life", "event", "wait_ms"),
    [
        (Life(phase=LifecyclePhase.REGISTERING), Unreachable(), RETRY_MS),
        (
            Life(phase=LifecyclePhase.REGISTERING),
            Registered(ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            RETRY_REGISTRATION_MS,
        ),
        (Life(phase=LifecyclePhase.FENCED), Unreachable(), RETRY_MS),
        (Life(phase=LifecyclePhase.FENCED), HeartbeatAnswered(ErrorCode.NOT_CONTROLLER, is_fenced=True), RETRY_MS),
        (Life(phase=LifecyclePhase.FENCED), HeartbeatAnswered(NONE, is_fenced=True), 500),
        (Life(phase=LifecyclePhase.FENCED, ready=True), HeartbeatAnswered(NONE, is_fenced=True), 500),
        (
            Life(phase=LifecyclePhase.FENCED, ready=True, registered_at=4, applied=3),
            HeartbeatAnswered(NONE, is_fenced=True),
            500,
        ),
        (
            Life(phase=LifecyclePhase.FENCED, ready=True, registered_at=0, applied=0),
            HeartbeatAnswered(NONE, is_fenced=True),
            SOON_MS,
        ),
        (Life(phase=LifecyclePhase.UNFENCED), HeartbeatAnswered(NONE, is_fenced=False), 2_000),
        (Life(phase=LifecyclePhase.UNFENCED), Unreachable(), RETRY_MS),
        (Life(phase=LifecyclePhase.LEAVING), Unreachable(), LEAVING_MS),
        (Life(phase=LifecyclePhase.LEAVING), HeartbeatAnswered(NONE, is_fenced=False), LEAVING_MS),
    ],
)
def test_each_answer_says_when_the_next_request_is_sent(life: Life, event: Event, wait_ms: float) -> None:
    """Where the next heartbeat will unfence the broker, it is sent soon; a fenced broker asks more often than one that serves."""
    after, effects = step(life, event, 100.0)
    assert [each for each in effects if not isinstance(each, FencingChanged)] == []
    assert after.due_ms == 100 + wait_ms
    early, effects = step(after, LifecycleTick(), 100 + wait_ms - 0.1)
    assert (early, effects) == (after, [])
    sent, effects = step(after, LifecycleTick(), 100 + wait_ms)
    assert len(effects) == 1
    assert (sent.due_ms, sent.sent_ms) == (None, 100 + wait_ms)


@pytest.mark.parametrize(
    ("phase", "event", "last_ms", "end"),
    [
        (
            LifecyclePhase.REGISTERING,
            Registered(ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            60_000,
            Fail(ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ),
        (LifecyclePhase.REGISTERING, Unreachable(), 60_000, Fail(ErrorCode.BROKER_NOT_AVAILABLE)),
        (LifecyclePhase.LEAVING, Unreachable(), 300_000, MayStop(granted=False)),
        (LifecyclePhase.LEAVING, HeartbeatAnswered(NONE, is_fenced=False), 300_000, MayStop(granted=False)),
    ],
)
def test_a_request_that_does_not_succeed_is_given_up_at_its_time(
    phase: LifecyclePhase, event: Event, last_ms: float, end: Effect
) -> None:
    life = Life(phase=phase, asked_since_ms=1_000.0)
    assert step(life, event, 999.0 + last_ms)[1] == []
    ended, effects = step(life, event, 1_000.0 + last_ms)
    assert effects == [end]
    assert (ended.phase, ended.due_ms) == (LifecyclePhase.ENDED, None)


def test_the_time_of_the_last_accepted_heartbeat_is_when_it_was_sent() -> None:
    driver = unfenced()
    (sent,) = driver.wait()
    sent_ms = driver.now_ms
    driver(HeartbeatAnswered(ErrorCode.NOT_CONTROLLER, is_fenced=False), after_ms=5)
    assert driver.life.last_accepted_ms < sent_ms
    assert driver.wait() == [sent]
    sent_ms = driver.now_ms
    driver(HeartbeatAnswered(NONE, is_fenced=False), after_ms=30)
    assert driver.life.last_accepted_ms == sent_ms


def test_the_lease_of_a_broker_ends_a_session_after_its_last_accepted_heartbeat_was_sent() -> None:
    driver = unfenced()
    driver.wait()
    sent_ms = driver.now_ms
    driver(HeartbeatAnswered(NONE, is_fenced=False), after_ms=30)
    assert driver.life.lease_end_ms == sent_ms + driver.life.times.session_ms
    driver.wait()
    driver(Unreachable(), after_ms=5)
    assert driver.life.lease_end_ms == sent_ms + driver.life.times.session_ms, "a lost answer extends nothing"


@pytest.mark.parametrize(
    "answer", [HeartbeatAnswered(NONE, is_fenced=True), HeartbeatAnswered(ErrorCode.STALE_BROKER_EPOCH, is_fenced=True)]
)
def test_a_broker_that_the_controller_has_fenced_has_no_lease(answer: HeartbeatAnswered) -> None:
    driver = unfenced()
    assert driver.life.lease_end_ms > driver.now_ms
    driver.wait()
    driver(answer)
    assert driver.life.lease_end_ms < driver.now_ms


def test_a_broker_that_leaves_leads_until_the_controller_lets_it_go() -> None:
    driver = unfenced()
    driver.wait()
    driver(StopAsked())
    driver(HeartbeatAnswered(NONE, is_fenced=False))
    assert driver.life.lease_end_ms > driver.now_ms
    driver.wait()
    driver(HeartbeatAnswered(NONE, is_fenced=True, should_shut_down=True))
    assert driver.life.lease_end_ms < driver.now_ms


def test_a_broker_that_leaves_says_it_at_once_unless_a_heartbeat_is_under_way() -> None:
    driver = unfenced()
    driver.wait()
    assert driver(StopAsked()) == []
    assert driver(HeartbeatAnswered(NONE, is_fenced=False), after_ms=10) == []
    assert driver.wait() == [SendHeartbeat(70, 75, want_fence=False, want_shut_down=True)]
    assert driver(StopAsked()) == [], "it leaves already"
    assert driver(HeartbeatAnswered(ErrorCode.STALE_BROKER_EPOCH, is_fenced=True)) == [MayStop(granted=False)]


def test_answers_to_requests_of_another_phase_change_nothing() -> None:
    for phase, event in (
        (LifecyclePhase.FENCED, Registered(NONE, 99)),
        (LifecyclePhase.CATCHING_UP, Unreachable()),
        (LifecyclePhase.REGISTERING, HeartbeatAnswered(NONE, is_fenced=False)),
        (LifecyclePhase.REGISTERING, CaughtUp()),
        (LifecyclePhase.ENDED, StopAsked()),
    ):
        life = Life(phase=phase, broker_epoch=7)
        assert step(life, event, 100.0) == (life, [])


def test_what_was_applied_before_a_new_registration_does_not_count_for_it() -> None:
    driver = unfenced()
    driver.wait()
    driver(HeartbeatAnswered(ErrorCode.STALE_BROKER_EPOCH, is_fenced=True))
    assert (driver.life.broker_epoch, driver.life.registered_at, driver.life.asked_since_ms) == (-1, -1, driver.now_ms)
    driver(Registered(NONE, 90))
    driver(Applied(95, 92))
    driver(Applied(96, 60))
    assert driver.life.registered_at == 92, "an earlier registration that is seen again does not replace the newer one"
