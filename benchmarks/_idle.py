"""The share of a core that a process uses after its work: what spins, or polls, while nothing is asked for."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

WINDOW_S: Final = 2.0
SHARE: Final = 0.02
WINDOWS: Final = 10
"""A process may still tidy up after its work: one of so many windows has to be quiet."""


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of its children that run. A JVM among them is not ours."""
    process = Path(f"/proc/{pid}")
    try:
        name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        children = {each for task in (process / "task").iterdir() for each in (task / "children").read_text().split()}
    except FileNotFoundError:  # it has ended
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return (0.0 if name == "java" else own) + sum(cpu_s(int(child)) for child in children)


def smallest_share(pid: int) -> float:
    """Return the share of a core in the first window in which it was small enough, or the smallest of all."""
    shares = []
    for _ in range(WINDOWS):
        before, began = cpu_s(pid), time.monotonic()
        time.sleep(WINDOW_S)
        shares.append((cpu_s(pid) - before) / (time.monotonic() - began))
        if shares[-1] < SHARE:
            break
    return min(shares)


def is_watched() -> bool:
    """Whether the system shows the processor time of processes."""
    return Path("/proc/self/stat").exists()
