"""What `make core` leaves out: the paths of `tests/not_core.txt`, each with its reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
LIST: Final = TESTS / "not_core.txt"


@cache
def left_out() -> dict[Path, str]:
    """Return the reason of each file and folder that is left out. Raises ValueError for a path without a reason."""
    found: dict[Path, str] = {}
    reason = ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        elif line and not line.startswith("#"):
            if not reason:
                raise ValueError(f"{LIST.name}: {line} has no reason above it, in brackets")
            found[TESTS / line] = reason
    return found


def is_core(path: Path, left: dict[Path, str]) -> bool:
    """Return whether `make core` has a file or folder."""
    return path not in left and left.keys().isdisjoint(path.parents)
