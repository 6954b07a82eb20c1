"""Sessions of brokers under a virtual clock: who is registered, fenced, unfenced and released, and what it does to partitions."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamactors.broker.controller.cluster_command import Beat, Heartbeat, ProcessEnded, RegisterBroker
from streamactors.broker.controller.command import PlannedChange
from streamactors.broker.controller.sessions_state import Sessions
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import BrokerRegistration, Endpoint, Feature, FeatureLevel
from tests.broker.controller.clusters import after, cluster, directory, only, partition

SESSION_MS = 1_000.0
CLUSTER = "a-cluster"


def never(_: str) -> bool:
    return False


class Controller:
    """Carries plans out at once; broker 1 is its own."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.now_ms = 0.0
        self.sessions = Sessions(1, CLUSTER, SESSION_MS)
        self.sessions.start(image, self.now_ms)

    @property
    def end(self) -> int:
        return self.image.offset + 1

    def done(self, made: PlannedChange) -> object:
        if made.records:
            self.image = after(self.image, made.records)
        return made.answer

    def register(self, broker: int, incarnation: int, **changes: object) -> tuple[ErrorCode, int]:
        given = {
            "broker_id": broker,
            "cluster_id": CLUSTER,
            "incarnation_id": uuid.UUID(int=incarnation),
            "endpoints": (Endpoint("PLAINTEXT", "127.0.0.1", 9000),),
            "features": (Feature("metadata.version", 7, 27),),
            "rack": None,
            "log_dirs": (directory(broker),),
            **changes,
        }
        command = RegisterBroker(**given)  # type: ignore[arg-type]
        answer = self.done(self.sessions.register(self.image, command, self.end, self.now_ms, never))
        error, epoch = answer  # type: ignore[misc]
        return error, epoch

    def beat(
        self,
        broker: int,
        *,
        fence: bool = False,
        leave: bool = False,
        offset: int | None = None,
        cordoned: tuple[uuid.UUID, ...] | None = None,
    ) -> Beat:
        epoch = self.image.brokers[broker].broker_epoch
        at = self.image.offset if offset is None else offset
        beat = Heartbeat(broker, epoch, at, fence, leave, cordoned=cordoned)
        answer = self.done(self.sessions.heartbeat(self.image, beat, self.end, self.now_ms, never))
        assert isinstance(answer, Beat)
        return answer

    def pass_time(self, ms: float) -> list[int]:
        """Return the brokers whose session ended."""
        self.now_ms += ms
        ended = []
        while (found := self.sessions.expire(self.image, self.now_ms, never)) is not None:
            ended.append(found[0])
            self.done(found[1])
        return ended


def test_the_next_session_to_end_is_that_of_the_broker_heard_first() -> None:
    controller = Controller(cluster())
    controller.now_ms = 400
    controller.beat(2)
    assert controller.sessions.next_end_ms == SESSION_MS
    controller.beat(3)
    assert controller.sessions.next_end_ms == 400 + SESSION_MS
    assert Sessions(1, CLUSTER, SESSION_MS).next_end_ms is None


def test_a_new_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    controller = Controller(cluster(brokers=(1,)))
    error, epoch = controller.register(2, incarnation=200)
    assert error is ErrorCode.NONE
    assert controller.image.brokers[2].fenced
    assert controller.beat(2, offset=epoch - 1) == Beat(ErrorCode.NONE, is_caught_up=False, is_fenced=True)
    assert controller.beat(2, offset=epoch) == Beat(ErrorCode.NONE, is_caught_up=True, is_fenced=False)
    assert not controller.image.brokers[2].fenced


def test_a_broker_that_is_not_heard_is_fenced_and_its_leaderships_move() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3, 1))))
    controller.now_ms = 600
    controller.beat(3)
    assert controller.pass_time(500) == [2]
    assert (only(controller.image).leader, only(controller.image).isr) == (3, (3, 1))
    assert only(controller.image).leader_epoch == 6
    assert controller.pass_time(600) == [3]
    assert (only(controller.image).leader, only(controller.image).isr) == (1, (1,))


def test_the_last_member_of_an_isr_stays_in_it_and_leads_again_when_it_is_back() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3), isr=(2,))))
    assert controller.pass_time(1_001) == [2, 3]
    assert (only(controller.image).leader, only(controller.image).isr) == (NO_LEADER, (2,))
    assert not controller.beat(3).is_fenced
    assert only(controller.image).leader == NO_LEADER, "broker 3 lacks what broker 2 acknowledged"
    assert not controller.beat(2).is_fenced
    assert (only(controller.image).leader, only(controller.image).isr) == (2, (2,))


def test_a_live_brokers_id_is_refused_to_another_process_until_its_session_ends() -> None:
    controller = Controller(cluster())
    assert controller.register(2, incarnation=999)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.pass_time(1_001)
    assert controller.register(2, incarnation=999)[0] is ErrorCode.NONE


def test_a_repeated_registration_gives_the_same_epoch() -> None:
    controller = Controller(cluster())
    first = controller.register(4, incarnation=400)
    controller.beat(4)
    assert controller.register(4, incarnation=400) == first
    assert not controller.image.brokers[4].fenced, "the second attempt of the same process changes nothing"


def test_a_broker_that_crashed_leaves_the_isr_at_its_registration_and_one_that_stopped_in_order_stays() -> None:
    for clean in (False, True):
        controller = Controller(cluster(partition(replicas=(1, 2)), fenced=(2,)))
        epoch = controller.image.brokers[2].broker_epoch
        controller.register(2, incarnation=200, previous_epoch=epoch if clean else -1)
        assert only(controller.image).isr == ((1, 2) if clean else (1,))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"endpoints": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (directory(3),)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (directory(4), directory(4))}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (uuid.UUID(int=1),)}, ErrorCode.INVALID_REGISTRATION),
        ({"features": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"features": (Feature("metadata.version", 7, 18),)}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_that_cannot_be_right_is_refused(changes: dict[str, object], error: ErrorCode) -> None:
    controller = Controller(after(cluster(), [FeatureLevel("metadata.version", 19)]))
    assert controller.register(4, incarnation=400, **changes) == (error, -1)
    assert 4 not in controller.image.brokers


def test_a_heartbeat_names_the_cordoned_folders_from_level_30_on() -> None:
    controller = Controller(after(cluster(), [FeatureLevel("metadata.version", 29)]))
    controller.register(4, 40, features=(Feature("metadata.version", 7, 33),))
    folder = directory(4)

    def beat(*folders: uuid.UUID) -> BrokerRegistration:
        assert controller.beat(4, cordoned=folders).error is ErrorCode.NONE
        return controller.image.brokers[4]

    assert beat(folder).cordoned is None
    controller.image = after(controller.image, [FeatureLevel("metadata.version", 30)])
    assert beat(folder).is_cordoned
    offset = controller.image.offset
    assert beat(folder).cordoned == (folder,)
    assert controller.image.offset == offset  # nothing is written twice
    assert not beat().is_cordoned
    assert controller.beat(4).error is ErrorCode.NONE
    assert controller.image.brokers[4].cordoned == ()


def test_a_heartbeat_of_an_earlier_life_is_refused() -> None:
    controller = Controller(cluster())
    beat = Heartbeat(2, 11, 99, False, False)
    answer = controller.sessions.heartbeat(controller.image, beat, controller.end, 0.0, never).answer
    assert answer.error is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_is_released_when_the_others_know_the_new_leaders() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3, 1))))
    before = controller.image.offset
    controller.beat(3, offset=before)
    assert not controller.beat(2, leave=True).should_shut_down
    assert (only(controller.image).leader, only(controller.image).isr) == (3, (3, 1))
    assert not controller.beat(2, leave=True).should_shut_down, "broker 3 has not applied it yet"
    controller.beat(3)
    released = Beat(ErrorCode.NONE, True, is_fenced=True, should_shut_down=True)
    assert controller.beat(2, leave=True) == released
    assert controller.image.brokers[2].fenced
    assert controller.beat(2, leave=True) == released, "the answer was lost"


def test_an_ended_process_is_fenced_at_once_unless_it_was_an_earlier_one() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3))))
    controller.done(controller.sessions.process_ended(controller.image, ProcessEnded(2, 11), never))
    assert only(controller.image).leader == 2
    controller.done(controller.sessions.process_ended(controller.image, ProcessEnded(2, 12), never))
    assert only(controller.image).leader == 3
    assert controller.image.brokers[2].fenced


def test_a_session_stands_up_to_its_time_and_ends_after_it() -> None:
    controller = Controller(cluster())
    assert controller.pass_time(SESSION_MS) == []
    assert controller.register(2, incarnation=999)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert controller.pass_time(0.1) == [2, 3]


def test_the_controllers_own_broker_has_no_session_and_no_second_process() -> None:
    controller = Controller(cluster())
    assert controller.register(1, incarnation=999)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert controller.beat(1).error is ErrorCode.STALE_BROKER_EPOCH
    assert controller.pass_time(10 * SESSION_MS) == [2, 3]


def test_a_leadership_begins_with_new_sessions_for_the_brokers_that_are_not_fenced() -> None:
    controller = Controller(cluster(fenced=(3,)))
    controller.beat(3, fence=True)
    assert controller.sessions.start(controller.image, 700.0) == [2]
    assert controller.sessions.next_end_ms == 700 + SESSION_MS


def test_a_broker_is_fenced_at_its_wish_once() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3))))
    assert controller.beat(2, fence=True) == Beat(ErrorCode.NONE, is_caught_up=True, is_fenced=True)
    assert (only(controller.image).leader, controller.image.brokers[2].fenced) == (3, True)
    offset = controller.image.offset
    assert controller.beat(2, fence=True).is_fenced
    assert controller.image.offset == offset


@pytest.mark.parametrize(("level", "accepted"), [(6, False), (7, True), (27, True), (28, False), (0, False)])
def test_a_broker_must_know_the_metadata_version_of_the_cluster(level: int, accepted: bool) -> None:
    controller = Controller(cluster())
    controller.image = replace(controller.image, features={"metadata.version": level})
    error = controller.register(4, incarnation=400)[0]
    assert (error is ErrorCode.NONE) == accepted


def test_a_broker_may_lack_a_feature_that_is_off() -> None:
    for level, error in ((0, ErrorCode.NONE), (1, ErrorCode.UNSUPPORTED_VERSION)):
        controller = Controller(cluster())
        controller.image = replace(controller.image, features={"group.version": level})
        assert controller.register(4, incarnation=400)[0] is error


@pytest.mark.parametrize(("number", "accepted"), [(99, False), (100, True)])
def test_the_first_hundred_folder_ids_are_reserved(number: int, accepted: bool) -> None:
    controller = Controller(cluster())
    error = controller.register(4, incarnation=400, log_dirs=(uuid.UUID(int=number),))[0]
    assert (error is ErrorCode.NONE) == accepted
    assert controller.register(-1, incarnation=401)[0] is ErrorCode.INVALID_REGISTRATION
    assert controller.register(0, incarnation=402)[0] is ErrorCode.NONE


def test_a_broker_leaves_when_each_live_broker_has_applied_the_last_record_of_its_departure() -> None:
    for behind, released in ((1, False), (0, True)):
        controller = Controller(cluster(partition(replicas=(2, 3, 1)), brokers=(1, 2, 3, 4), fenced=(4,)))
        controller.beat(4, fence=True, offset=0)  # a fenced broker is not waited for
        controller.beat(2, leave=True)
        controller.beat(3, offset=controller.image.offset - behind)
        assert controller.beat(2, leave=True).should_shut_down == released


def test_a_fenced_broker_serves_again_only_when_it_has_applied_what_fenced_it() -> None:
    # A leader was frozen for longer than its session. Its first heartbeat unfenced it -> it had a session with the controller again, and had not read yet
    # that another broker led.
    controller = Controller(cluster(partition(replicas=(2, 3, 1))))
    before = controller.image.offset
    controller.now_ms = 600
    controller.beat(3)
    assert controller.pass_time(500) == [2]
    assert controller.beat(2, offset=before).is_fenced
    assert controller.beat(2, offset=controller.image.offset - 1).is_fenced
    assert controller.beat(2) == Beat(ErrorCode.NONE, is_caught_up=True, is_fenced=False)


def test_a_new_controller_unfences_a_broker_that_has_applied_what_the_controller_found() -> None:
    controller = Controller(cluster(partition(replicas=(2, 3, 1))))
    before = controller.image.offset
    controller.pass_time(1_001)
    controller.sessions.start(controller.image, controller.now_ms)
    assert controller.beat(2, offset=before).is_fenced
    assert not controller.beat(2).is_fenced


class Life(RuleBasedStateMachine):
    """Brokers 2 and 3 register, beat, leave, crash and fall silent in any order."""

    @initialize(first=st.permutations((1, 2, 3)))
    def begin(self, first: list[int]) -> None:
        self.controller = Controller(cluster(partition(replicas=tuple(first))))
        self.lives = 1_000

    @rule(broker=st.sampled_from((2, 3)), clean=st.booleans())
    def restart(self, broker: int, clean: bool) -> None:
        self.lives += 1
        epoch = self.controller.image.brokers[broker].broker_epoch if clean else -1
        self.controller.register(broker, incarnation=self.lives, previous_epoch=epoch)

    @rule(broker=st.sampled_from((2, 3)), fence=st.booleans(), leave=st.booleans(), behind=st.integers(0, 3))
    def beat(self, broker: int, fence: bool, leave: bool, behind: int) -> None:
        self.controller.beat(broker, fence=fence, leave=leave, offset=self.controller.image.offset - behind)

    @rule(ms=st.integers(1, 1_500))
    def wait(self, ms: int) -> None:
        self.controller.pass_time(ms)

    @invariant()
    def the_isr_is_never_empty_and_has_only_replicas(self) -> None:
        if hasattr(self, "controller"):
            seen = only(self.controller.image)
            assert seen.isr
            assert set(seen.isr) <= set(seen.replicas)

    @invariant()
    def a_leader_is_in_the_isr_and_not_fenced(self) -> None:
        if hasattr(self, "controller"):
            image = self.controller.image
            seen = only(image)
            if seen.leader != NO_LEADER:
                assert seen.leader in seen.isr
                assert not image.brokers[seen.leader].fenced

    @invariant()
    def a_partition_has_a_leader_if_a_member_of_its_isr_may_lead(self) -> None:
        if hasattr(self, "controller"):
            image = self.controller.image
            seen = only(image)
            able = [
                each
                for each in seen.isr
                if not image.brokers[each].fenced and not image.brokers[each].in_controlled_shutdown
            ]
            assert (seen.leader != NO_LEADER) == bool(able)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
