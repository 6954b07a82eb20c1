"""Print a digest of the traces of many seeds over all shapes. `python -m tests.simulation.world.traces SEEDS`."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import uuid

from streamactors.simulation.world.simulated import SimulatedWorld
from tests.simulation.world.shapes import SHAPES, run


def trace(seed: int) -> list[str]:
    """Return the trace of the shape that is the seed's turn, with its result."""
    name = list(SHAPES)[seed % len(SHAPES)]
    world = SimulatedWorld(seed)

    def main() -> None:
        world.note("began", at=time.time(), id=uuid.uuid4())
        world.note("ended", result=run(name), at=time.monotonic())

    world.run(main)
    return world.trace.lines()


def digest(seeds: list[int]) -> dict[int, str]:
    """Return the digest of each seed's trace."""
    return {seed: hashlib.sha256("\n".join(trace(seed)).encode()).hexdigest() for seed in seeds}


if __name__ == "__main__":
    others = [object() for _ in range(1_237 * int(os.environ["PYTHONHASHSEED"]))]  # other addresses of what follows
    for seed, found in digest(list(range(int(sys.argv[1])))).items():
        print(seed, found)
