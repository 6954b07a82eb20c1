"""Randomness of a world: `random`, `os.urandom`, `uuid` and `secrets` draw from the run's seed.

Owner: the patches. `random`'s own generator is seeded and its state is put back after the run. A `random.Random()` without a seed takes one from
the world. `uuid1` counts from a fixed node."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from streamactors.simulation.world.here import here

_NODE: Final = 0x020000000001
_urandom = os.urandom
_seed = random.Random.seed


class Chance:
    """The randomness that code in the world draws. `dice` is for the product and the user, not for the order of tasks."""

    def __init__(self, seed: int | str) -> None:
        self.dice = random.Random(f"{seed}/user")
        self._put_back: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Draw from the seed from now on."""
        state, node, last = random.getstate(), uuid._node, uuid._last_timestamp  # type: ignore[attr-defined]
        safe = uuid._generate_time_safe  # type: ignore[attr-defined]
        self._put_back = [
            lambda: random.setstate(state),
            lambda: setattr(uuid, "_node", node),
            lambda: setattr(uuid, "_last_timestamp", last),
            lambda: setattr(uuid, "_generate_time_safe", safe),
            lambda: setattr(random.Random, "seed", _seed),
        ]
        chance = self

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            if a is None and here() is not None:
                a = chance.dice.getrandbits(64)
            _seed(generator, a, version)

        random.seed(self.dice.getrandbits(64))
        uuid._node, uuid._last_timestamp, uuid._generate_time_safe = _NODE, None, None  # type: ignore[attr-defined]
        setattr(random.Random, "seed", seed)  # noqa: B010 - the class declares a method of C code

    def end(self) -> None:
        """Put everything back."""
        for put_back in self._put_back:
            put_back()
        self._put_back.clear()

    def replacements(self) -> list[tuple[object, object]]:
        """Return (original, replacement) for the sources of random bytes."""

        def urandom(size: int) -> bytes:
            return _urandom(size) if here() is None else self.dice.randbytes(size)

        return [(_urandom, urandom)]
