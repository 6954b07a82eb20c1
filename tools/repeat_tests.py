"""Runs tests many times, quiet or beside processes that burn the CPU, each time in another order, and prints what failed.

    python tools/repeat_tests.py                             the tests that count the whole process, 50 times
    python tools/repeat_tests.py --burners 2                 beside two processes at normal priority
    python tools/repeat_tests.py --times 5 tests/actors      the tests of a folder, five times

Arguments that this program does not know go to pytest. The exit code is 1 when a test failed in any round."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTING = ["-m", "whole_process and not slow"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def counting_files() -> list[str]:
    """Return the files with tests that count the whole process; pytest needs not read all others in each round."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        str(path)
        for path in tests
        if "@own_process" in path.read_text(encoding="utf-8") and path.name != "test_own_process.py"
    ]


def one_round(chosen: list[str], seed: int) -> tuple[list[str], str]:
    """Return the names of the tests that failed, and what pytest printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--randomly-seed={seed}", *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    failed = FAILED.findall(done.stdout)
    return failed or ([f"pytest ended with {done.returncode}"] if done.returncode else []), done.stdout + done.stderr


def main() -> int:
    """Run the rounds; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=50)
    options.add_argument("--burners", type=int, default=0)
    given, chosen = options.parse_known_args()
    chosen = chosen or [*COUNTING, *counting_files()]
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.burners)]
    failures: Counter[str] = Counter()
    started = time.monotonic()
    try:
        for seed in range(1, given.times + 1):
            failed, printed = one_round(chosen, seed)
            failures.update(failed)
            print(
                f"round {seed} of {given.times}, {time.monotonic() - started:.0f} s: {', '.join(failed) or 'all passed'}",
                flush=True,
            )
            if failed:
                print(printed)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    for name, times in failures.most_common():
        print(f"failed {times} of {given.times}: {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
