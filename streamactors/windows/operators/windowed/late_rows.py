"""Late rows: what an operator does with a row that arrives too late.

Windows: the limit is stream time minus the grace period. A time window [start, end) is closed when its end is at or before the limit. A session
[start, end] and a sliding window [start, end], to which their end belongs, are closed when their end is before the limit. A row is late
for each closed window that it would have updated. Each such window refuses the row: the row changes nothing there and `dropped-records` counts one. With `windowed_by(…, late=sink)` the sink
receives a LateRecord; without a sink the row is dropped. A stage logs the number of dropped rows (`late_counts.py`); a task without a stage logs a row a second.
The open windows of the same row are updated as usual. The operators decide what is late: time windows in `time_windows.py`, sessions in
`session_windows.py`, sliding windows in `sliding_windows.py`.

Joins and tables refuse late rows here, too. In a join of two streams (`windows/joins/stream_stream.py`) the window of a row is the time in which its
partners lie. The others have no windows, and `start` and `end` of their LateRecords are the row's timestamp: a join with a table that has a grace
period (`windows/joins/stream_table_grace.py`), an update older than the history of a versioned table (`windows/tables/versioned.py`), an entry whose
`ttl` is over (`windows/tables/expiring.py`). With Kafka's semantics the join with such a table refuses no late row: it joins the row at once."""

from __future__ import annotations

import logging
from typing import Final

from streamactors.log_limit import log_limited
from streamactors.windows.operators.operator import END_OF_TIME, TaskEnvironment, TimedOperator
from streamactors.windows.record import LateRecord, Record, as_read

log: Final = logging.getLogger(__name__)


def refuse(operator: TimedOperator, record: Record, start: int, end: int, limit: int, gap: int = 0) -> None:
    """Refuse `record` for the closed window `start`..`end`; `limit` is stream time minus the grace period and the gap of a session."""
    grace = operator.stream_time - limit - gap
    refuse_row(operator.node, operator.env, record, start, end, operator.stream_time, grace, gap)


def refuse_row(
    node: str, env: TaskEnvironment, record: Record, start: int, end: int, stream_time: int, grace_ms: int, gap: int = 0
) -> None:
    """Refuse `record` for the closed window `start`..`end`."""
    limit = stream_time - grace_ms - gap
    env.metrics.dropped_late += 1
    env.metrics.late_rows.append((record.key, record.timestamp, stream_time))
    if env.late is not None:
        env.late.append(LateRecord(as_read(record), start, end, stream_time, limit))
        return  # nothing is lost: the sink has the row
    if env.late_counts is not None:
        needed = stream_time - end - gap + 1 if stream_time < END_OF_TIME else None
        env.late_counts.refused(node, record, (start, end), grace_ms, needed)
        return
    log_limited(
        log, logging.WARNING, node,
        "%s: a row is dropped as late: key %r at %d ms for window %d..%d, closed since %s",
        node, record.key, record.timestamp, start, end,
        f"{limit} ms" if stream_time < END_OF_TIME else "the end of the input",
    )  # fmt: skip
