"""A process that has imported pytest, its plugins and the product once, and forks a child for each test. Started by `own_process.py`.

A new interpreter spends more than a second on imports before most tests begin. The child of a fork has them, and none of the threads, descriptors
and garbage of other tests: this process imports and forks, nothing else.

Each line of the input is a JSON object with `node` (the test), `environment` and `output` (the file that gets what pytest prints). The answer is a
line with the exit code. The process ends with its input."""

from __future__ import annotations

import gc
import json
import os
import sys

import pytest

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")


def import_once() -> None:
    """Import what every test needs, by the importer of pytest. Nothing is run."""
    with open(os.devnull, "w") as nowhere:
        shown, sys.stdout = sys.stdout, nowhere
        pytest.main([*OPTIONS, "--collect-only", "tests/test_structure.py"])
        sys.stdout = shown
    import streamactors.kafka
    import streamactors.testing  # noqa: F401

    gc.collect()
    gc.freeze()


def run_in_child(node: str, environment: dict[str, str], output: str) -> int:
    """Run one test with its output in a file; return pytest's exit code. In the child."""
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, standard in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, standard)
    os.close(nothing)
    os.close(target)
    return int(pytest.main([*OPTIONS, node]))


def main() -> int:
    """Serve until the input ends; return the exit code, in a child that of its test."""
    import_once()
    while True:
        line = sys.stdin.readline()
        if not line:
            return 0
        child = os.fork()
        if not child:
            return run_in_child(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    sys.exit(main())
