"""`make demo-crash`: the demo killed twice with -9 on the way, ends in the same tables as one that was left alone.

Everything dies at once: the demo with its streams and Spark's JVM (one process group), and the broker (a group of its own, so that
Ctrl-C leaves it to be stopped in order)."""

from __future__ import annotations

import filecmp
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from streamactors.demo.folder import Folder
from streamactors.demo.steps import STEPS

KILLS: Final = 2
TABLES: Final = ("by_airline.csv", "hours.csv", "alerts.csv", "counts.csv")
_LOOK_EVERY_SECONDS: Final = 0.02


class Moment(NamedTuple):
    """When to kill: in step `step`, once `share` of it is done."""

    step: str
    share: float

    def has_come(self, run: dict[str, object], steps: list[str]) -> bool:
        """Return whether a run has reached this moment or passed it: a short step may end between two looks."""
        step, done, total = run.get("step"), run.get("done", 0), run.get("total", 1)
        if step not in steps or not isinstance(done, int) or not isinstance(total, int):
            return False
        here, there = steps.index(str(step)), steps.index(self.step)
        return here > there or (here == there and done >= self.share * total)


def moments(seed: int) -> list[Moment]:
    """Return the moments of the kills, in order."""
    rng = random.Random(seed)
    steps = list(STEPS)
    chosen = sorted((rng.randrange(len(steps)), rng.uniform(0.1, 0.9)) for _ in range(KILLS))
    return [Moment(steps[index], round(share, 2)) for index, share in chosen]


def crash_demo(into: Path, seed: int | None) -> bool:
    """Run the demo once without and once with kills; return whether both runs are right and their tables equal."""
    seed = random.randrange(1_000_000) if seed is None else seed
    left_alone, killed = into / "left-alone", into / "killed"
    print(
        f"killed with -9 twice, seed {seed}: {', '.join(f'{m.step} at {m.share:.0%}' for m in moments(seed))}",
        flush=True,
    )
    for moment in moments(seed):
        _run_until(killed, moment)
    if _run(killed) != 0:
        return False
    print("\nand once more, left alone, to compare with\n", flush=True)
    if _run(left_alone) != 0:
        return False
    same = [name for name in TABLES if _same(left_alone / "tables" / name, killed / "tables" / name)]
    for name in TABLES:
        print(f"  {'✓' if name in same else '✗'} {name}: {'the same, row for row' if name in same else 'differs'}")
    return len(same) == len(TABLES)


def _same(left: Path, right: Path) -> bool:
    return left.is_file() and right.is_file() and filecmp.cmp(left, right, shallow=False)


def _command(into: Path) -> list[str]:
    return [sys.executable, "-m", "streamactors.cli.main", "demo", "--into", str(into)]


def _run(into: Path) -> int:
    """Run the demo to its end; return its exit code. Ctrl-C is the demo's own affair, as it shares our terminal."""
    process = subprocess.Popen(_command(into))
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise


def _run_until(into: Path, moment: Moment) -> None:
    """Run the demo until a moment and kill everything it has started."""
    folder = Folder(into)
    process = subprocess.Popen(_command(into), start_new_session=True)
    try:
        while process.poll() is None:
            run = folder.read_run()
            if run.get("pid") == process.pid and moment.has_come(run, list(STEPS)):
                print(f"\nkill -9 in {run['step']} at {run['done']:,} of {run['total']:,}\n", flush=True)
                return
            time.sleep(_LOOK_EVERY_SECONDS)
    finally:
        _kill(process, folder)


def _kill(process: subprocess.Popen[bytes], folder: Folder) -> None:
    """Kill the demo, its JVM and its broker, all with -9."""
    run = folder.read_run()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    broker = run.get("broker")
    if run.get("pid") == process.pid and isinstance(broker, int):
        try:
            os.kill(broker, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has heard that its parent is gone
    process.wait()
