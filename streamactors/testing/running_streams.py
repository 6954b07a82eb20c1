"""What the streams of this process wait for, as text: for the report of a test that has timed out."""

from __future__ import annotations

from streamactors.engine.island.run import all_runs
from streamactors.engine.stalls.diagnosis import diagnose

MOST: int = 5
"""The number of streams that are described."""


def running_streams() -> str:
    """Return, for each stream that still runs, what it waits for, its bottleneck and its picture; empty if none runs."""
    stalls = []
    for run in all_runs()[:MOST]:
        try:
            stall = diagnose(run)
        except AttributeError:  # it ends just now
            continue
        if stall is not None:
            busiest = stall.snapshot.bottleneck
            busy = f"\nmost of the time went to: {busiest.name} ({busiest.busy:.0%})" if busiest is not None else ""
            stalls.append(f"{stall}{busy}\n{stall.to_mermaid()}")
    return "\n".join(stalls)
