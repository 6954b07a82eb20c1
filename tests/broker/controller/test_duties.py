"""When the controller looks for brokers that are silent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from streamactors.broker.controller.cluster_command import Beat, Heartbeat
from streamactors.broker.controller.command import PlannedChange
from streamactors.broker.controller.duties import Duties
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import BrokerRegistrationChange
from tests.broker.controller.clusters import cluster, partition

SESSION_MS = 1_000.0


class Rig:
    """The duties of a controller that is no broker. Broker 1 and 2 are alive; the test is the clock, the timers and the writer."""

    writing = False

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.image = cluster(partition(replicas=(1, 2)), brokers=(1, 2))
        self.checks: list[tuple[float, Callable[[], object]]] = []
        self.fenced: list[int] = []
        self.write_ms = 0.0
        clock = SimpleNamespace(now_ms=lambda: self.now_ms, wall_ms=lambda: 0)
        dispatcher: Any = SimpleNamespace(clock=clock, call_later=self._call_later)
        log: Any = SimpleNamespace(end_offset=100, voter_set=None)
        self.quorum: Any = SimpleNamespace(in_touch=True)
        self.duties = Duties(
            self, dispatcher, log, self.quorum, own_id=-1, cluster_id="a-cluster", session_ms=SESSION_MS
        )
        self.duties.start()

    def _call_later(self, delay_ms: float, call: Callable[[], object]) -> Any:
        self.checks.append((self.now_ms + delay_ms, call))
        return SimpleNamespace(cancel=lambda: None)

    def facts(self) -> Any:
        return SimpleNamespace(image=self.image, config=SimpleNamespace(unclean_leader_election_enable=False))

    def write(self, made: PlannedChange, _reply: object, _command: object = None) -> None:
        if isinstance(made.answer, Beat):
            self.answers.append(made.answer.error)
        self.now_ms += self.write_ms
        self.fenced += [
            each.broker_id for each in made.records if isinstance(each, BrokerRegistrationChange) and each.fenced > 0
        ]

    def beat(self, *brokers: int) -> list[ErrorCode]:
        self.answers: list[ErrorCode] = []
        for each in brokers:
            epoch = self.image.brokers[each].broker_epoch
            self.duties.carry_out(Heartbeat(each, epoch, 100, False, False), lambda _: None)
        return self.answers

    def run(self, until_ms: float) -> None:
        """Let time pass with checks in time."""
        while self.checks and self.checks[0][0] <= until_ms:
            self.now_ms, check = self.checks.pop(0)
            check()
        self.now_ms = until_ms


def test_a_broker_that_is_silent_for_its_session_is_fenced() -> None:
    rig = Rig()
    rig.run(800.0)
    rig.beat(2)
    rig.run(1_500.0)
    assert rig.fenced == [1]


def test_a_controller_that_stood_still_reads_its_heartbeats_before_it_fences() -> None:
    # The disk of the controller, or its process, stood still for longer than a session -> the timer came before the heartbeats that had arrived
    # meanwhile -> every broker of the cluster was fenced.
    rig = Rig()
    rig.now_ms = 5_000.0
    _, check = rig.checks.pop(0)
    check()
    assert rig.fenced == []
    rig.beat(1)
    rig.run(5_900.0)
    assert rig.fenced == [2]  # it has ended while the controller stood still


def test_a_controller_that_is_always_late_fences_nevertheless() -> None:
    rig = Rig()
    for rig.now_ms in (5_000.0, 10_000.0):
        _, check = rig.checks.pop(0)
        check()
    assert rig.fenced == [1, 2]


def test_heartbeats_that_arrive_while_a_broker_is_fenced_are_read_before_another_one_is() -> None:
    # The only voter writes within its check. Its disk was slow -> the sessions of all the other brokers ended meanwhile, and they were fenced, too.
    rig = Rig()
    rig.run(800.0)
    rig.beat(2)
    rig.write_ms = 5_000.0
    while not rig.fenced:
        rig.now_ms, check = rig.checks.pop(0)
        check()
    assert rig.fenced == [1]
    rig.write_ms = 0.0
    rig.beat(2)
    rig.run(rig.now_ms + SESSION_MS / 2)
    assert rig.fenced == [1]


def test_a_controller_that_leads_again_reads_its_heartbeats_before_it_fences() -> None:
    # It stood still, another node was elected before the check that had been put off, and later it leads again and stands still once more.
    rig = Rig()
    rig.now_ms = 5_000.0
    _, check = rig.checks.pop(0)
    check()
    rig.duties.stop()
    rig.checks.clear()
    rig.duties.start()
    rig.now_ms = 10_000.0
    _, check = rig.checks.pop(0)
    check()
    assert rig.fenced == []


def test_a_controller_out_of_touch_with_the_majority_accepts_no_heartbeat() -> None:
    # The active controller and a leader were cut off together. The others elected a controller, which elected another leader -> the old controller
    # accepted heartbeats until it gave up, and for a session after that the old leader named an old end of the partition.
    rig = Rig()
    assert rig.beat(1) == [ErrorCode.NONE]
    rig.quorum.in_touch = False
    assert rig.beat(1) == [ErrorCode.NOT_CONTROLLER]
    rig.quorum.in_touch = True
    assert rig.beat(1) == [ErrorCode.NONE]
