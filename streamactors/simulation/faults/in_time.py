"""Faults of brokers and instances: each begins by itself and ends after a while.

Owner: the plan. Each fault has a task of its own, which sleeps until the next opportunity, chooses its target by the dice of that opportunity and strikes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import ErrorCode
from streamactors.simulation.faults.when import Between, InTime, gaps

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.faults.chances import Chance, Chances
    from streamactors.simulation.faults.deployment import Deployment
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.faults.requests import Requests
    from streamactors.simulation.world.face import World

REFUSED_FOR_MS: Final = 1_000.0
REFUSABLE: Final = {
    "fetch": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "produce": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "offset_commit": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "join_group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "init_producer_id": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The requests that a broker may refuse, and the error."""
MOST_STOPPED: Final = 1
"""So many brokers are down or cut off at once: with more, acknowledged records may be gone, which no pipeline can help."""
MOST_JOINED: Final = 2
"""So many instances more than the test asks for."""


class InTimeFaults:
    """The faults of one run that come by themselves."""

    def __init__(
        self, faults: Faults, chances: Chances, requests: Requests, world: World, cluster: SimulatedCluster, deployment: Deployment
    ) -> None:  # fmt: skip
        self._faults = faults
        self._chances = chances
        self._requests = requests
        self._world = world
        self._cluster = cluster
        self._deployment = deployment
        self._joined: list[str] = []

    def begin(self) -> None:
        """Start a task for each fault that may strike."""
        kinds: dict[str, Callable[[Chance, random.Random], None]] = {
            "broker_killed": self._kill_broker,
            "broker_slow": self._slow_broker,
            "broker_cut_off": self._cut_broker_off,
            "leader_moved": self._move_leader,
            "coordinator_moved": self._move_coordinator,
            "refused": self._refuse,
            "rebalance": self._rebalance,
            "zombie": self._pause,
            "clock_jump": self._shift_clock,
        }
        for name, strike in kinds.items():
            self._task(name, name, getattr(self._faults, name), strike)
        for number, when in enumerate(self._faults.crashes):
            if not isinstance(when, Between):
                self._task("crash", f"crash {number}", when, self._crash)

    def _task(self, fault: str, salt: str, when: InTime, strike: Callable[[Chance, random.Random], None]) -> None:
        times = gaps(when, random.Random(f"{self._chances.seed}/{salt}/times"))

        def opportunity() -> None:
            if self._chances.healed:
                return
            chance = self._chances.next(fault, "")
            strike(chance, chance.dice())
            then()

        def then() -> None:
            gap_ms = next(times, None)
            if gap_ms is not None:
                self._world.later(gap_ms, opportunity, fault)

        then()

    def _strikes(self, chance: Chance, target: str, text: str) -> bool:
        return self._chances.strike(chance, self._world, text, target)

    def _after(self, dice: random.Random, step: Callable[[], object], what: str, spans: str = "downtime") -> None:
        """Run a step when the fault is over: after a time of the dice. `heal` does the same for all."""

        def over() -> None:
            if not self._chances.healed:
                step()

        self._world.later(dice.uniform(*self._faults.span_ms(spans)), over, what)

    # --- brokers ---

    def _broker(self, dice: random.Random) -> int | None:
        """Return a broker that may go, None while enough are gone."""
        cluster = self._cluster
        alive = [each for each in cluster.brokers_alive() if each not in cluster.cut_off]
        chosen = dice.choice(cluster.brokers)
        gone = len(cluster.brokers) - len(alive)
        return chosen if gone < MOST_STOPPED and len(alive) > 1 and chosen in alive else None

    def _kill_broker(self, chance: Chance, dice: random.Random) -> None:
        broker = self._broker(dice)
        if broker is not None and self._strikes(chance, f"broker {broker}", f"broker {broker} was killed"):
            self._cluster.stop_broker(broker)
            self._after(dice, lambda: self._cluster.start_broker(broker), f"broker {broker} starts again")

    def _cut_broker_off(self, chance: Chance, dice: random.Random) -> None:
        broker = self._broker(dice)
        if broker is not None and self._strikes(chance, f"broker {broker}", f"broker {broker} was cut off"):
            self._cluster.cut(broker)
            self._after(dice, lambda: self._cluster.start_broker(broker), f"broker {broker} is reached again")

    def _slow_broker(self, chance: Chance, dice: random.Random) -> None:
        broker = dice.choice(self._cluster.brokers)
        slow = self._requests.slow
        if broker not in slow and self._strikes(chance, f"broker {broker}", f"broker {broker} became slow"):
            slow.add(broker)
            self._after(dice, lambda: slow.discard(broker), f"broker {broker} is quick again")

    def _move_leader(self, chance: Chance, dice: random.Random) -> None:
        places = list(self._cluster.topics.partitions)
        if not places:
            return
        topic, partition = places[dice.randrange(len(places))]
        to = dice.choice(self._cluster.brokers)
        text = f"broker {to} was to lead {topic}-{partition}"
        if self._cluster.is_reached(to) and self._strikes(chance, f"{topic}-{partition}", text):
            self._cluster.move_leader(topic, partition, to)

    def _move_coordinator(self, chance: Chance, dice: random.Random) -> None:
        of = self._cluster.groups if dice.random() < 0.5 else self._cluster.transactions
        coordinators = of.coordinators
        to = dice.choice(self._cluster.brokers)
        text = f"broker {to} coordinates what is in {coordinators.topic}"
        if self._cluster.is_reached(to) and self._strikes(chance, coordinators.topic, text):
            for index in range(coordinators.count):
                coordinators.move(index, to)

    def _refuse(self, chance: Chance, dice: random.Random) -> None:
        api = dice.choice(sorted(REFUSABLE))
        refuses = self._cluster.refuses_instances
        if api not in refuses and self._strikes(chance, api, f"the brokers refuse {api}"):
            refuses[api] = REFUSABLE[api]

            def allow() -> None:
                refuses.pop(api, None)

            self._world.later(REFUSED_FOR_MS, allow, f"{api} is allowed again")

    # --- instances ---

    def _running(self, dice: random.Random) -> str | None:
        """Return an instance that runs, None if the chosen one does not."""
        chosen = dice.random()
        names = self._deployment.instances()
        name = names[int(chosen * len(names))] if names else ""
        return name if name and self._deployment.is_running(name) else None

    def _crash(self, chance: Chance, dice: random.Random) -> None:
        name = self._running(dice)
        if name is not None and self._strikes(chance, name, f"instance {name} crashed"):
            self.crash(name, dice)

    def crash(self, name: str, dice: random.Random) -> None:
        """Kill an instance and let it start again. Does not return in a task of it."""
        after_ms = dice.uniform(*self._faults.span_ms("downtime"))
        torn, lost = dice.random() < self._faults.torn_write, dice.random() < self._faults.state_lost
        restart = self._deployment.restart
        self._world.later(after_ms, lambda: restart(name), f"instance {name} starts again")
        if lost:
            self._deployment.lose_disk(name)
        else:
            self._deployment.crash(name, torn=torn)

    def _pause(self, chance: Chance, dice: random.Random) -> None:
        name = self._running(dice)
        if name is not None and self._strikes(chance, name, f"instance {name} was not scheduled for a while"):
            self._deployment.pause(name)
            self._after(dice, lambda: self._deployment.resume(name), f"instance {name} is scheduled again", "pauses")

    def _shift_clock(self, chance: Chance, dice: random.Random) -> None:
        name = self._running(dice)
        ms = dice.uniform(*self._faults.span_ms("clock_jumps")) * dice.choice((-1, 1))
        if name is not None and self._strikes(
            chance, name, f"the clock of instance {name} jumped by {ms / 1_000:+.0f} s"
        ):
            self._deployment.shift_clock(name, ms)

    def _rebalance(self, chance: Chance, dice: random.Random) -> None:
        if len(self._joined) >= MOST_JOINED or not self._deployment.instances():
            return
        if self._strikes(chance, "group", "one more instance joined"):
            name = self._deployment.join()
            self._joined.append(name)

            def leave() -> None:
                if name in self._joined:
                    self._joined.remove(name)
                    self._deployment.leave(name)

            # It leaves also when the faults are over: the test asked for fewer.
            self._world.later(dice.uniform(*self._faults.span_ms("downtime")), leave, f"instance {name} leaves")

    def heal(self) -> None:
        """End what has not ended: brokers run and are quick, requests are allowed."""
        for broker in self._cluster.brokers:
            if not self._cluster.is_reached(broker):
                self._cluster.start_broker(broker)
        self._requests.slow.clear()
        self._cluster.refuses_instances.clear()
