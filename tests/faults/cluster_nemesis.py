"""What goes wrong in a cluster of three while a workload runs: nodes die, freeze, are cut off or slow; disks fill, clocks jump, clients stand still."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerError
from tests.faults.replica_logs import METADATA, latest_epoch
from tests.faults.sabotage.faults import FULL_S
from tests.faults.workload import Run

NODES = (1, 2, 3)
CHANGELOG = "late-seen-store-changelog"
SHOWN_BY = {
    "elects-anybody": "_kill_all_who_are_in_sync",
    "forgets-votes": "_kill_who_has_voted",
    "keeps-epochs": "_cut_off_who_leads_next",
}
"""The bugs that only one trouble shows."""


class Late(Protocol):
    """The instance that starts beside a broker that is cut off: `chaos.Latecomer`."""

    def kill(self) -> None: ...

    def start_at(self, server: str) -> None: ...


class Trouble:
    """A nemesis: one trouble after another, in the order that the seed decides. Every node runs at its end. A planted `bug` of `SHOWN_BY` meets the
    trouble that shows it every other time."""

    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        calm_s: float = 1.5,
        several_controllers: bool = False,
        bug: str = "",
        latecomer: Late | None = None,
    ) -> None:
        self._cluster = cluster
        self._several_controllers = several_controllers
        self._shown_by = SHOWN_BY.get(bug, "")
        self._dice = random.Random(f"nemesis {seed}")
        self._calm_s = calm_s
        self._happened: Counter[str] = Counter()
        self._latecomer = latecomer
        self._late_at = self._dice.randrange(1, 4)  # which trouble of the round is the one of the latecomer

    def __str__(self) -> str:
        return ", ".join(f"{what} {times}" for what, times in sorted(self._happened.items()))

    def nemesis(self, run: Run, over: threading.Event) -> None:
        """Trouble the cluster until the run is over."""
        troubles: list[Callable[[Run, threading.Event], None]] = [
            self._kill,
            self._kill,
            self._kill,
            self._kill_two,
            self._kill_while_a_follower_lags,
            self._kill_while_a_follower_lags,
            self._cut_off_who_leads_next,
            self._cut_off_who_leads_next,
            self._kill_all_who_are_in_sync,
            self._kill_who_has_voted,
            self._stop,
            self._freeze,
            self._cut_off,
            self._cut_off,
            self._slow,
            self._full_disk,
            self._clock,
            self._client,
        ]
        while not over.wait(self._calm_s * self._dice.uniform(0.3, 2.0)):
            trouble = self._dice.choice(troubles)
            if self._latecomer is not None and sum(self._happened.values()) == self._late_at:
                trouble = self._start_beside_cut_off
            if self._shown_by and sum(self._happened.values()) % 2 == 0:
                trouble = getattr(self, self._shown_by)
            self._happened[trouble.__name__.strip("_")] += 1
            trouble(run, over)

    def _node(self) -> int:
        return self._dice.choice(NODES)

    def _kill(self, _run: Run, over: threading.Event) -> None:
        node = self._node()
        self._cluster.kill(node)
        over.wait(self._dice.choice([0.0, 0.3, 1.0, 4.0]))
        self._cluster.start(node)

    def _kill_two(self, _run: Run, over: threading.Event) -> None:
        """Two of them die one after the other, and come back in either order."""
        nodes = self._dice.sample(NODES, 2)
        for node in nodes:
            self._cluster.kill(node)
            over.wait(self._dice.choice([0.0, 0.5, 3.0]))
        self._dice.shuffle(nodes)
        if 1 in nodes:  # a broker needs the controller to start
            nodes.sort()
        for node in nodes:
            self._cluster.start(node)

    def _kill_while_a_follower_lags(self, _run: Run, over: threading.Event) -> None:
        """A follower is cut off for too short a time to leave the ISR, and somebody else dies meanwhile."""
        lagging, dying = self._dice.sample(NODES, 2)
        self._cluster.partition({lagging}, set(NODES) - {lagging})
        over.wait(self._dice.choice([0.1, 0.4, 1.0]))
        self._cluster.kill(dying)
        self._cluster.heal()
        over.wait(self._dice.choice([0.5, 3.0]))
        self._cluster.start(dying)

    def _cut_off_who_leads_next(self, _run: Run, over: threading.Event) -> None:
        """A broker is elected and cut off before anybody has copied a record of its epoch: it must give up the epoch with the records."""
        dying, next_leader = self._dice.sample(NODES, 2)
        self._cluster.kill(dying)
        over.wait(self._dice.choice([0.1, 0.3, 0.6]))
        self._cluster.partition({next_leader}, set(NODES) - {next_leader, dying})
        over.wait(0.5)
        self._cluster.start(dying)
        over.wait(2.0)
        self._cluster.heal()

    def _kill_all_who_are_in_sync(self, _run: Run, over: threading.Event) -> None:
        """One is cut off until it has left the ISR. Then the two others die, and only one of them comes back: who was cut off must not lead."""
        behind, first, second = self._dice.sample(NODES, 3)
        self._cluster.partition({behind}, {first, second})
        over.wait(4.0)  # longer than replica.lag.time.max.ms and the session
        if 1 in (first, second) and not self._several_controllers:
            first, second = 1, ({first, second} - {1}).pop()  # a broker needs the controller to start
        self._cluster.kill(second)
        self._cluster.kill(first)
        self._cluster.heal()
        self._cluster.start(first)
        over.wait(self._dice.choice([1.0, 3.0]))
        self._cluster.start(second)

    def _kill_who_has_voted(self, _run: Run, over: threading.Event) -> None:
        """A controller votes and is killed before it has a record of the new leader, who is cut off. It must remember its vote."""
        if not self._several_controllers:
            return
        try:
            before = self._cluster.controller()
        except BrokerError:  # none leads after the trouble before
            return
        follower, voter = self._dice.sample([each for each in NODES if each != before], 2)
        epoch = self._metadata_epoch(before)
        self._cluster.slow(follower, ms=200)  # so that the record takes a while from one to the other
        self._cluster.kill(before)  # the two others elect one of them
        down = [before]
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up and not over.wait(0.005):
            leader = next((each for each in (follower, voter) if self._metadata_epoch(each) > epoch), None)
            if leader is not None:
                down.append(follower if leader == voter else voter)
                self._cluster.kill(down[-1])
                self._cluster.partition({leader}, set(down))
                break
        with ThreadPoolExecutor(len(down)) as pool:  # neither can start without the other
            list(pool.map(self._cluster.start, down))
        over.wait(3.0)
        self._cluster.heal()

    def _metadata_epoch(self, node: int) -> int:
        return latest_epoch(self._cluster.data_folder / str(node) / METADATA)

    def _stop(self, _run: Run, _over: threading.Event) -> None:
        node = self._dice.choice((2, 3))
        self._cluster.stop(node)
        self._cluster.start(node)

    def _freeze(self, _run: Run, over: threading.Event) -> None:
        node = self._node()
        self._cluster.pause(node)
        over.wait(self._dice.choice([0.2, 1.0, 4.0]))
        self._cluster.resume(node)

    def _cut_off(self, _run: Run, over: threading.Event) -> None:
        node = self._node()
        self._cluster.partition({node}, set(NODES) - {node})
        over.wait(self._dice.choice([0.5, 2.0, 5.0]))
        self._cluster.heal()

    def _start_beside_cut_off(self, _run: Run, over: threading.Event) -> None:
        """A leader of a changelog is cut off. An instance works on with the next leader, so that its state on disk is newer than the old leader's log.
        Then it dies, and starts again beside the old leader."""
        assert self._latecomer is not None
        cut_off = self._node()
        with suppress(BrokerError):  # no changelog yet
            cut_off = max(self._cluster.leader(CHANGELOG, self._dice.randrange(3)), 1)
        self._cluster.partition({cut_off}, set(NODES) - {cut_off})
        over.wait(self._dice.choice([2.0, 5.0, 7.0]))
        self._latecomer.kill()
        self._latecomer.start_at(self._cluster.bootstrap_servers.split(",")[cut_off - 1])
        over.wait(self._dice.choice([3.0, 6.0]))
        self._cluster.heal()

    def _slow(self, _run: Run, over: threading.Event) -> None:
        self._cluster.slow(self._node(), ms=self._dice.choice([5, 50, 300]))
        over.wait(2.0)
        self._cluster.heal()

    def _full_disk(self, _run: Run, over: threading.Event) -> None:
        """A partition whose disk was full stays offline until its broker starts again."""
        node = self._dice.choice((2, 3))
        os.kill(self._cluster.pids[node], signal.SIGUSR1)
        over.wait(FULL_S + 0.5)
        self._cluster.kill(node)
        self._cluster.start(node)

    def _clock(self, _run: Run, over: threading.Event) -> None:
        """The wall clock of a node jumps by an hour, and later back."""
        node = self._node()
        for _ in range(2):
            os.kill(self._cluster.pids[node], signal.SIGUSR2)
            over.wait(1.5)

    def _client(self, run: Run, over: threading.Event) -> None:
        paused = run.paused[self._dice.choice(sorted(run.paused))]
        paused.set()
        over.wait(self._dice.choice([1.0, 7.0]))  # shorter and longer than its session
        paused.clear()
