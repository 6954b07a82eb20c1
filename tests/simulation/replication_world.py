"""One partition on three brokers, with a controller, clients and faults: the invariants of replication.

The controller is one process that never fails; its own quorum has a simulation of its own."""

from __future__ import annotations

from typing import Any

from tests.simulation.replication_controller import BROKERS, CONTROLLER, Controller, NothingPromised
from tests.simulation.replication_node import LAG, Node, Rules, Violated
from tests.simulation.scheduler import Scheduler

__all__ = ["Rules", "Violated", "World"]


class World(Scheduler):
    """Three brokers, a controller, clients, faults and the invariants."""

    def __init__(self, seed: int, rules: Any = Rules) -> None:
        super().__init__(seed, loss=0.03)
        self.rules: Any = rules
        self.min_isr = self.random.choice((1, 2))
        self.committed: list[tuple[int, int]] = []
        self.acknowledged: dict[int, int] = {}
        self.cut: set[tuple[int, int]] = set()  # (broker, life) that ended by a power cut
        self.controller = Controller(self)
        self.nodes = {number: Node(self, number) for number in BROKERS}
        self.deaf: set[int] = set()  # brokers that do not hear what the controller says about their proposals
        self.values = 0
        self.writing = self.faulty = True
        for node in self.nodes.values():
            node.start(clean=True)
        self.controller.tick()
        self.later(5.0, self.client)
        self.later(30.0, self.fault)
        self.later(50.0, self.deafen)

    def powered(self, broker: int, life: int) -> bool:
        return (broker, life) not in self.cut

    # --- clients ---

    def client(self) -> None:
        if not self.writing:
            return
        self.values += 1
        leaders = [node for node in self.nodes.values() if node.alive and node.leader is not None]
        if leaders:
            self.random.choice(leaders).write(self.values)
        self.later(self.random.choice((1.0, 3.0, 8.0)), self.client)

    def acknowledge(self, value: int, offset: int) -> None:
        if offset >= len(self.committed) or self.committed[offset][1] != value:
            raise Violated(f"{value} was acknowledged at offset {offset}, where another record is committed")
        self.acknowledged[offset] = value

    # --- faults ---

    def fault(self) -> None:
        if not self.faulty:
            return
        node = self.nodes[self.random.choice(BROKERS)]
        kind = self.random.choice(("kill", "power", "sync", "sync", "start", "start", "apart", "apart", "heal"))
        if kind == "sync" and node.alive:
            node.sync()
        elif kind == "start" and not node.alive:
            node.start(clean=False)
        elif kind == "kill" and node.alive:
            node.stop(power=False)
        elif kind == "power" and node.alive and self.may_lose_power(node):
            self.cut.add((node.id, node.life))
            node.stop(power=True)
            if self.random.random() < 0.5:
                self.later(1.0, self.restart, node)
        elif kind == "apart":
            one, other = self.random.sample((CONTROLLER, *BROKERS), 2)
            self.note("apart", one, other)
            self.separate(one, other)
        elif kind == "heal":
            self.heal()
        self.later(self.random.uniform(5.0, 60.0), self.fault)

    def deafen(self) -> None:
        """Have a broker not hear for a while what the controller says about its proposals."""
        if self.faulty:
            node = self.random.choice(BROKERS)
            self.deaf.add(node)
            self.later(self.random.uniform(5.0, 60.0), self.deaf.discard, node)
            self.later(self.random.uniform(50.0, 200.0), self.deafen)

    def restart(self, node: Node) -> None:
        if not node.alive:
            node.start(clean=False)

    def may_lose_power(self, node: Node) -> bool:
        """Whether a member of the ISR survives that has everything: nothing more is promised."""
        return any(each != node.id and not self.nodes[each].lost for each in self.controller.image.isr)

    # --- invariants ---

    def committed_by(self, node: Node) -> None:
        """A leader's high watermark has moved."""
        known = len(self.committed)
        if node.log[: min(node.high_watermark, known)] != self.committed[: node.high_watermark]:
            raise Violated(f"broker {node.id} commits other records than were committed before")
        self.committed += node.log[known : node.high_watermark]
        state = node.leader
        assert state is not None
        image = self.controller.image
        if image.leader == node.id and image.leader_epoch == state.epoch:
            for member in image.isr:
                replica = self.nodes[member]
                if replica.alive and len(replica.log) < node.high_watermark and replica.broker_epoch >= 0:
                    raise Violated(f"broker {member} is in sync and ends before the high watermark of its leader")

    def check(self, node: Node) -> None:
        if node.log[: node.high_watermark] != self.committed[: node.high_watermark]:
            raise Violated(f"broker {node.id} differs from the committed records below its high watermark")

    def in_sync(self) -> bool:
        """Whether every replica is in the ISR and has the committed records, and no others."""
        equal = all(node.log == self.committed for node in self.nodes.values())
        return equal and set(self.controller.image.isr) == set(BROKERS)

    def play(self) -> World:
        """Run with faults, then without: at last every replica is in sync and has the same log."""
        try:
            self._play()
        except NothingPromised:
            self.note("nothing is promised any more")
        return self

    def _play(self) -> None:
        self.run(900.0)
        self.faulty = False
        self.be_kind()
        self.note("no more faults")
        for node in self.nodes.values():
            if not node.alive:
                node.start(clean=False)
        before = len(self.committed)
        self.run_until(lambda: len(self.committed) > before + 10, within=400.0, lasting=0.0)
        self.writing = False
        self.run_until(self.in_sync, within=1_700.0 - self.now, lasting=2 * LAG)
        for node in self.nodes.values():
            self.check(node)
            if node.log != self.committed:
                raise Violated(
                    f"broker {node.id} ends at {len(node.log)}, and {len(self.committed)} records are committed"
                )
        if set(self.controller.image.isr) != set(BROKERS):
            raise Violated(f"the ISR is {self.controller.image.isr} at the end")
        for offset, value in self.acknowledged.items():
            if self.committed[offset][1] != value:
                raise Violated(f"{value} was acknowledged at offset {offset} and is lost")
