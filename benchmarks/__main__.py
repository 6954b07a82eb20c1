"""`python -m benchmarks [NAME[:TEXT] …]`: run the benchmarks, print their rows, and write them to docs/benchmarks.md.

Each module of this folder with a `run()` that returns rows is a benchmark. `NAME:TEXT` measures only the rows whose names contain TEXT, where the
module's `run` takes `only`; the other rows of the page stay as they were. A row has `name`, `value`, `unit`, `peer` (its figure in the
same run), `ratio`, `spread` and `target`. Figures without the peer beside them say nothing on a shared machine; ratios do."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks._idle import SHARE, is_watched, smallest_share
from benchmarks.report import load, save, write_page
from streamactors.actors.dispatching.spinning import forget_spins, spins
from streamactors.gauges import forget_overfull, overfull


def names() -> list[str]:
    """Return the names of the benchmark modules."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return [name for name in found if name not in ("__main__", "report") and not name.startswith("_")]


def replaced(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of an earlier run with those of the same names replaced, and new ones behind them."""
    measured = {row["name"]: row for row in rows}
    kept = [measured.pop(row["name"], row) for row in before]
    return kept + list(measured.values())


def not_idle() -> list[str]:
    """Return what this process uses of a core after its work, if that is too much."""
    share = smallest_share(os.getpid()) if is_watched() else 0.0
    return [f"{share:.0%} of a core is used after the work, and may be less than {SHARE:.0%}"] if share >= SHARE else []


def main(wanted: list[str]) -> int:
    """Run the named benchmarks, or all; return the exit code."""
    unknown = [name for name in wanted if name.partition(":")[0] not in names()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for each in wanted or names():
        name, _, only = each.partition(":")
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "run"):
            continue
        if only and "only" not in inspect.signature(module.run).parameters:
            print(f"benchmark {name} measures all of its rows in one run; leave :{only} out", file=sys.stderr)
            failed.append(name)
            continue
        print(f"\n{name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        try:
            rows = module.run(only=only) if only else module.run()
        except ImportError as error:
            print(f"  skipped: {error} (make bench installs the peers)")
            failed.append(name)
            continue
        except Exception:  # hours may have passed, and the others have peers of their own
            traceback.print_exc()
            failed.append(name)
            continue
        if faults := [*map(str, spins()), *map(str, overfull()), *not_idle()]:
            print(f"figures of {name} are not kept, because of a fault: {'; '.join(faults)}", file=sys.stderr)
            forget_spins()
            forget_overfull()
            failed.append(name)
            continue
        if not rows:
            print(f"no row of {name} has {only!r} in its name", file=sys.stderr)
            failed.append(name)
            continue
        for row in rows:
            print(
                "  " + " | ".join(f"{key} {value}" for key, value in row.items() if value not in (None, "")), flush=True
            )
        results = load()  # another run may have finished meanwhile
        date = time.strftime("%Y-%m-%d")
        if only and name in results:
            before, measured = results[name], {row["name"] for row in rows}
            rows = replaced(before["rows"], rows)
            if not all(row["name"] in measured for row in rows):
                date = before["date"]  # of the oldest row
        results[name] = {
            "title": (module.__doc__ or name).strip().splitlines()[0],
            "date": date,
            "rows": rows,
        }
        save(results)
    write_page(load(), Path(__file__).parent.parent / "docs")
    if failed:
        print(f"without figures: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
