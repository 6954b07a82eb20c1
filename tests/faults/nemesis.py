"""What goes wrong while a workload runs: the broker is killed, restarted and paused, and clients stand still."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from tests.faults.broker_process import BrokerProcess
from tests.faults.workload import Run


def everything(broker: BrokerProcess, seed: int, calm_s: float = 1.5) -> Callable[[Run, threading.Event], None]:
    """Return a nemesis that does one thing after another until the run is over, and leaves the broker running."""

    def nemesis(run: Run, over: threading.Event) -> None:
        dice = random.Random(f"nemesis {seed}")
        while not over.wait(calm_s * dice.uniform(0.3, 1.5)):
            match dice.choice(["kill", "kill", "restart", "pause", "pause client", "long pause of client"]):
                case "kill":
                    broker.kill()
                    over.wait(dice.choice([0, 0.2, 1.0]))
                    broker.start()
                case "restart":
                    broker.stop()
                    broker.start()
                case "pause":
                    broker.pause()
                    over.wait(dice.choice([0.1, 1.0, 3.0]))
                    broker.resume()
                case "pause client":
                    _pause(run, dice, over, 1.0)
                case _:
                    _pause(run, dice, over, 7.0)  # longer than its session

    return nemesis


def _pause(run: Run, dice: random.Random, over: threading.Event, seconds: float) -> None:
    paused = run.paused[dice.choice(sorted(run.paused))]
    paused.set()
    over.wait(seconds)
    paused.clear()
