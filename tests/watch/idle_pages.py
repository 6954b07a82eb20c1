"""Runs an example or the programs of a page, and waits: `python -m tests.watch.idle_pages FILE BOOTSTRAP`.

Everything that the program has made stays open. Prints `idle` when the program has ended, and ends with its input."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.docs.pages import blocks

THE_USERS_BROKER = "localhost:9092"
IDLE = "idle, and nothing is asked for"


def run(path: Path, bootstrap: str) -> object:
    """Run the file; return its names, which keep alive what they name."""
    if path.suffix == ".py":
        sys.argv = [str(path), *(["3000"] if path.stem == "slow_consumer" else [])]
        return runpy.run_path(str(path), run_name="__main__")
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(path):
        code = code.replace(THE_USERS_BROKER, bootstrap)
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
    return names


if __name__ == "__main__":
    kept = run(Path(sys.argv[1]), sys.argv[2])
    print(IDLE, flush=True)
    sys.stdin.read()
