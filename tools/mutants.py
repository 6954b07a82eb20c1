"""Mutation testing: change one expression of the product, and check whether a test fails.

    python tools/mutants.py --record                       which tests run which function; once, then only changed test files
    python tools/mutants.py --seed 7 --count 200 --group pure
    python tools/mutants.py --only streamactors/broker/group/classic/classic_state.py --count 20

Each mutant is one small change (a comparison, a boolean, a number, a deleted statement). The sample is drawn with the seed, so a run can
be repeated. Only tests that run the changed function are run: nearest and shortest first, at most `--limit` seconds of them. A mutant is
killed when a test fails or runs into its time limit, and passes without the mutant. `tools/equivalent_mutants.txt` lists the mutants that
no test can notice, each with its reason; they are not counted.

The tests run in forked children of a warm process, in a copy of the tree: the checkout is not touched. `tools/mutation/` has the parts:
`changes` (what is a mutant), `hits`, `recorder` and `who_runs` (which tests run a function), `room` and `server` (run them)."""

from __future__ import annotations

import argparse
import fnmatch
import os
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutation.changes import Mutant, mutants_of
from mutation.room import Room, Verdict, copy_tree
from mutation.who_runs import WhoRuns, record, stale

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.txt"
PURE = (
    "streamactors/*_state.py",
    "streamactors/actors/dispatching/timing_wheel.py",
    "streamactors/broker/controller/rules/*.py",
    "streamactors/broker/group/classic/*.py",
    "streamactors/broker/log/*_index.py",
    "streamactors/broker/log/*/compaction.py",
    "streamactors/broker/log/*/leader_epochs.py",
    "streamactors/broker/log/*/producer_snapshot.py",
    "streamactors/broker/metadata/*delta.py",
    "streamactors/broker/purgatory.py",
    "streamactors/broker/quorum/raft/leader_progress.py",
    "streamactors/broker/quorum/voter_set.py",
    "streamactors/broker/quotas/*.py",
    "streamactors/broker/security/acl_authoriser.py",
    "streamactors/broker/security/principal_mapping.py",
    "streamactors/broker/security/rights.py",
    "streamactors/broker/transaction/transaction.py",
    "streamactors/broker/transaction/transaction_events.py",
    "streamactors/broker/transaction/transactions.py",
    "streamactors/engine/marks/*.py",
    "streamactors/kafka/reading/offset_tracker.py",
    "streamactors/kafka/round_trips/retry_topics.py",
    "streamactors/kafka/sources/replayed_range.py",
    "streamactors/spark/sink/batch_size.py",
    "streamactors/stages/*/token_bucket.py",
    "streamactors/windows/definitions/*.py",
    "streamactors/windows/joins/*.py",
    "streamactors/windows/operators/*.py",
    "streamactors/windows/processors/*.py",
    "streamactors/windows/state/*_store.py",
    "streamactors/windows/state/stores.py",
    "streamactors/windows/tables/*.py",
)
"""Files without clock, socket or thread, in which at least nine of ten mutants should be killed."""


def sample(patterns: tuple[str, ...], seed: int, count: int, *, outside: bool) -> list[Mutant]:
    """Draw `count` mutants from the files that match the patterns, or with `outside` from all others."""
    equivalent = (
        {line.split(" # ")[0].strip() for line in EQUIVALENT.read_text().splitlines()} if EQUIVALENT.exists() else set()
    )
    found: list[Mutant] = []
    for path in sorted((ROOT / "streamactors").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        matches = any(fnmatch.fnmatch(file, pattern) for pattern in patterns)
        if matches != outside and "/demo/" not in file:
            found += [mutant for mutant in mutants_of(file, path.read_text()) if mutant.key not in equivalent]
    return random.Random(seed).sample(found, min(count, len(found)))


def main() -> int:
    """Run a sample, print the survivors and the share that was killed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    options.add_argument("--record", action="store_true", help="record which tests run which function, and stop")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--group", choices=("pure", "other"), default="pure")
    options.add_argument(
        "--part", default="1/1", help="K/N: the k-th of n equal parts of the sample, to run it in pieces"
    )
    options.add_argument("--only", action="append", default=[], help="a file pattern in place of a group")
    options.add_argument("--keys", help="a file of mutants to run again, one key a line")
    options.add_argument("--limit", type=float, default=40.0, help="seconds of tests for one mutant")
    options.add_argument("--jobs", type=int, default=2)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.record:
            copy_tree(ROOT, Path(folder) / "tree")
            record(ROOT, Path(folder) / "tree", stale(ROOT))
            return 0
        patterns = tuple(asked.only) or PURE
        chosen = sample(patterns, asked.seed, asked.count, outside=not asked.only and asked.group == "other")
        if asked.keys:
            chosen = by_key({line.strip() for line in Path(asked.keys).read_text().splitlines()})
        part, parts = map(int, asked.part.split("/"))
        chosen = chosen[len(chosen) * (part - 1) // parts : len(chosen) * part // parts]
        survivors = run(chosen, Path(folder), asked.jobs, asked.limit)
    killed = len(chosen) - len(survivors)
    print(f"\n{killed} of {len(chosen)} killed ({100 * killed / max(1, len(chosen)):.1f} %), seed {asked.seed}")
    for mutant in survivors:
        print(f"  {mutant.key}")
    return 0


def run(chosen: list[Mutant], folder: Path, jobs: int, limit_s: float) -> list[Mutant]:
    """Print the verdict of each mutant and return the survivors."""
    old = stale(ROOT)
    if old:
        print(
            f"{len(old)} test files are not recorded as they are now; record them with --record: {' '.join(old)[:300]}"
        )
    who = WhoRuns(ROOT)
    rooms: SimpleQueue[Room] = SimpleQueue()
    all_rooms = [Room(ROOT, folder / str(number), who) for number in range(jobs)]
    for room in all_rooms:
        rooms.put(room)

    def work(mutant: Mutant) -> tuple[Mutant, Verdict]:
        room = rooms.get()
        try:
            return mutant, room.verdict(mutant, limit_s)
        finally:
            rooms.put(room)

    survivors = []
    try:
        with ThreadPoolExecutor(jobs) as pool:
            for number, (mutant, verdict) in enumerate(pool.map(work, chosen), start=1):
                end = "killed" if verdict.killer else "SURVIVED"
                how = (
                    f"{'hang of ' if verdict.hung else ''}{verdict.killer}"
                    if verdict.killer
                    else f"{verdict.tests} of {verdict.known} tests"
                )
                print(f"{number:4} {end:8} {mutant} [{how}]", flush=True)
                if not verdict.killer:
                    survivors.append(mutant)
    finally:
        for room in all_rooms:
            room.close()
    return survivors


def by_key(keys: set[str]) -> list[Mutant]:
    """Return the mutants with these names."""
    files = {key.split(" | ")[0] for key in keys}
    return [
        mutant for file in sorted(files) for mutant in mutants_of(file, (ROOT / file).read_text()) if mutant.key in keys
    ]


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
