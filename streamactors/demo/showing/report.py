"""The report of a run: whether the totals are right, the speed, and the files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from streamactors.dashboard.latency_lines import latency_lines
from streamactors.dashboard.reading.latency import hop_states
from streamactors.demo import alerts, hours_to_spark, topics
from streamactors.demo.checking.check import check
from streamactors.demo.checking.tables import read_tables
from streamactors.demo.checking.truth import Truth
from streamactors.demo.showing.pictures import draw_pictures

if TYPE_CHECKING:
    from streamactors import LatencyMeter
    from streamactors.demo.flight import Flight
    from streamactors.demo.steps import Job

READERS_OF_HOURS: Final = (hours_to_spark.NAME, alerts.NAME)


def late_line(count: int, flight: Flight) -> str:
    """Return how many flights were late for their hour, with one of them."""
    scheduled = datetime.fromtimestamp(flight.scheduled_at_ms / 1_000, UTC)
    left = "cancelled" if flight.cancelled else f"{flight.dep_delay} min late"
    return (
        f"{count:,} flights came after their hour had closed, such as {flight.carrier} {flight.flight} from {flight.origin}, scheduled "
        f"{scheduled:%Y-%m-%d %H:%M} UTC, {left}: they are in the topic {topics.LATE}"
    )


def show_report(job: Job, latency: LatencyMeter) -> bool:
    """Read back, check, draw and print. Return whether all totals are right."""
    progress, folder = job.progress, job.folder
    produced = sum(topics.ends(job.bootstrap, topics.FLIGHTS).values())
    with progress.step("check and pictures", 3) as meter:
        tables = read_tables(folder, job.bootstrap)
        meter.set(1)
        findings = list(check(tables, Truth(job.flights.result()), produced))
        meter.set(2)
        pictures = draw_pictures(tables, folder)
    progress.finish()
    progress.say("\n  beside what pandas computes directly:\n")
    for finding in findings:
        progress.say(f"  ✓ {finding.what}" if finding.wrong is None else f"  ✗ {finding.what}: {finding.wrong}")
    progress.say("")
    dead = max(tables.dead.values(), default=0)
    progress.say(f"  {produced:,} records in = {tables.flights:,} rows in Spark + {dead} dead letters")
    in_hours = int(tables.hours["flights"].sum())
    progress.say(
        f"  {produced:,} records in = {in_hours:,} flights in hours + {tables.late:,} late + {dead} dead letters"
    )
    if tables.late_flight is not None:
        progress.say(f"  {late_line(tables.late, tables.late_flight)}")
    progress.say(f"  {len(tables.hours):,} windows, {len(tables.alerts):,} alerts on and off")
    progress.say("")
    progress.say(f"  {'step':<18}{'records':>10}{'seconds':>9}{'records/s':>11}")
    for name, report in folder.steps_done().items():
        seconds = max(report["seconds"], 0.01)
        # the positions of a topic that is written in transactions count their ends too
        records = len(tables.hours) if name in READERS_OF_HOURS else report["records"]
        progress.say(f"  {name:<18}{records:>10,}{seconds:>9.1f}{records / seconds:>11,.0f}")
    progress.say("")
    rows = [asdict(state) for ledger in latency.ledgers for state in hop_states(ledger)]
    for line in latency_lines(rows):
        progress.say(f"  {line}")
    progress.say("")
    for path in [*sorted(folder.parquet.iterdir()), folder.tables, *pictures]:
        progress.say(f"  {path}")
    return all(finding.wrong is None for finding in findings)
