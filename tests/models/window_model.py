"""A slow, obvious model of windowed computations, written from their rules and from nothing else.

One row at a time, every store a dict that is searched from end to end, every order a sort. It imports nothing of what
it judges. Kafka mode follows Kafka Streams to the letter, its stores' habit of hiding old entries included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.models.suppress_model import SuppressModel
from tests.models.window_case import Case, Outcome, add, keeps, mapped, merge
from tests.models.window_update import Full, Update

FOREVER = 2**63 - 1


class Counts:
    late = 0
    null = 0


def plus(case: Case, aggregate: Any, value: Any) -> Any:
    """The aggregate with one more row; None as the aggregate of reduce means that there is none."""
    if case.aggregate == "count":
        return aggregate + 1
    if case.aggregate == "reduce" and aggregate is None:
        return value
    return add(aggregate, value)


def initial(case: Case) -> Any:
    return {"count": 0, "reduce": None, "aggregate": ""}[case.aggregate]


def joined(case: Case, left: Any, right: Any) -> Any:
    if case.aggregate == "count":
        return left + right
    if case.aggregate == "reduce":
        return right if left is None else add(left, right)
    return merge(left, right)


@dataclass
class Entry:
    value: Any
    timestamp: int


class TimeModel:
    """Tumbling, hopping and unlimited windows."""

    def __init__(self, case: Case, counts: Counts) -> None:
        self.case, self.counts = case, counts
        self.time = -1
        self.entries: dict[tuple[str, int], Entry] = {}
        self.written = -1  # the largest start ever written
        self.emitted_to: int | None = None

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        if self.case.windows[0] == "unlimited":
            start = self.case.windows[1]
            return [(start, FOREVER)] if timestamp >= start else []
        _, size, advance, _ = self.case.windows
        starts = (
            [start for start in range(0, timestamp + 1, advance) if start <= timestamp < start + size]
            if timestamp < 10_000
            else [
                start
                for start in range((timestamp - size) // advance * advance, timestamp + 1, advance)
                if start >= 0 and start <= timestamp < start + size
            ]
        )
        return [(start, start + size) for start in starts]

    @property
    def grace(self) -> int:
        return 0 if self.case.windows[0] == "unlimited" else self.case.windows[3]

    def row(self, key: str | None, value: Any, timestamp: int) -> list[Update]:
        if key is None:
            self.counts.null += 1
            return []
        self.time = max(self.time, timestamp)
        limit = self.time - self.grace
        updates = []
        for start, end in self.windows(timestamp):
            if end <= limit:
                self.counts.late += 1
                continue
            entry = self.entries.pop((key, start), None)
            old = initial(self.case) if entry is None else entry.value
            newest = timestamp if entry is None else max(entry.timestamp, timestamp)
            new = plus(self.case, old, value)
            if new is not None:
                self.entries[key, start] = Entry(new, newest)
            self.written = max(self.written, start)
            updates.append(Update(key, start, end, new, old, newest))
        if not self.case.emits:
            return updates
        return self.emit(limit)

    def emit(self, limit: int) -> list[Update]:
        size = self.case.windows[1]
        retention = size + self.grace
        due = [
            (start, key.encode() + bytes(4), key)
            for key, start in self.entries
            if start + size <= limit and (self.emitted_to is None or start + size > self.emitted_to)
        ]
        if self.emitted_to is None or limit > self.emitted_to:
            self.emitted_to = limit
        if self.case.semantics == "kafka":
            due = [each for each in due if each[0] >= self.written - retention]
        return [
            Update(key, start, start + size, self.entries[key, start].value, None, self.entries[key, start].timestamp)
            for start, _, key in sorted(due)
        ]


class SessionModel:
    """Sessions; a dict from (key, start, end) to the aggregate."""

    def __init__(self, case: Case, counts: Counts) -> None:
        self.case, self.counts = case, counts
        self.time = -1
        self.sessions: dict[tuple[str, int, int], Any] = {}
        self.written = -1  # the largest end ever written
        self.emitted_to = -1

    def row(self, key: str | None, value: Any, timestamp: int) -> list[Update]:
        _, gap, grace = self.case.windows
        if key is None:
            self.counts.null += 1
            return []
        self.time = max(self.time, timestamp)
        limit = self.time - grace - gap
        if self.case.semantics == "kafka":
            visible = [each for each in self.sessions if each[2] > self.written - (gap + grace)]
        else:
            visible = [each for each in self.sessions if each[2] >= limit]
        old = sorted(
            (end, start)
            for k, start, end in visible
            if k == key and end >= timestamp - gap and start <= timestamp + gap
        )
        start = min([start for _, start in old] + [timestamp])
        end = max([end for end, _ in old] + [timestamp])
        updates = []
        if end < limit:
            self.counts.late += 1
        else:
            aggregate = initial(self.case)
            for each_end, each_start in old:
                aggregate = joined(self.case, aggregate, self.sessions[key, each_start, each_end])
            if (start, end) != (timestamp, timestamp):
                for each_end, each_start in old:
                    gone = self.sessions.pop((key, each_start, each_end))
                    updates.append(Update(key, each_start, each_end, None, gone, each_end))
            new = plus(self.case, aggregate, value)
            self.sessions.pop((key, start, end), None)
            if new is not None:
                self.sessions[key, start, end] = new
            self.written = max(self.written, end)
            updates.append(Update(key, start, end, new, None, end))
        if not self.case.emits:
            return updates
        return self.emit(limit)

    def emit(self, limit: int) -> list[Update]:
        _, gap, grace = self.case.windows
        due = sorted(
            (end, start, key.encode(), key) for key, start, end in self.sessions if self.emitted_to <= end < limit
        )
        self.emitted_to = max(self.emitted_to, limit)
        if self.case.semantics == "kafka":  # the store drops whole segments when time jumps
            segment = max((gap + grace) // 2, 60_000)
            due = [each for each in due if each[0] // segment >= (self.written - gap - grace) // segment]
        return [Update(key, start, end, self.sessions[key, start, end], None, end) for end, start, _, key in due]


class SlidingModel:
    """Sliding windows; a dict from (key, start) to the aggregate."""

    def __init__(self, case: Case, counts: Counts) -> None:
        self.case, self.counts = case, counts
        self.time = -1
        self.entries: dict[tuple[str, int], Entry] = {}
        self.written = -1  # the largest start ever written
        self.emitted_to: int | None = None

    def row(self, key: str | None, value: Any, timestamp: int) -> list[Update]:
        _, difference, grace = self.case.windows
        if key is None or value is None:
            self.counts.null += 1
            return []
        self.time = max(self.time, timestamp)
        limit = self.time - grace
        if timestamp + difference < limit:
            self.counts.late += 1
            return []
        visible = {start: entry for (k, start), entry in self.entries.items() if k == key}
        if self.case.semantics == "kafka":
            hidden_to = self.written - (2 * difference + grace) - (1 if self.case.emits else 0)
            visible = {start: entry for start, entry in visible.items() if start > hidden_to}
        plan = self.early(visible, timestamp) if timestamp < difference else self.regular(visible, timestamp)
        updates = []
        for start, before, copied in plan:
            if copied:
                new, newest, old = before.value, before.timestamp, None
            elif start + difference < limit:
                self.counts.late += 1
                continue
            else:
                old = before.value
                new = plus(self.case, old, value)
                newest = timestamp if old is None else max(timestamp, before.timestamp)
            self.entries.pop((key, start), None)
            if new is not None:
                self.entries[key, start] = Entry(new, newest)
            self.written = max(self.written, start)
            updates.append(Update(key, start, start + difference, new, old, newest))
        if not self.case.emits:
            return updates
        return self.emit(limit)

    def fresh(self, timestamp: int) -> Entry:
        return Entry(initial(self.case), timestamp)

    def regular(self, visible: dict[int, Entry], t: int) -> list[tuple[int, Entry, bool]]:
        """(start, what was there before, copied only) of each update of a row at t >= D."""
        difference = self.case.windows[1]
        containing = sorted((s for s in visible if s <= t <= s + difference), reverse=True)
        plan = [(start, Entry(visible[start].value, visible[start].timestamp), False) for start in containing]
        left = t - difference
        if left in visible and visible[left].timestamp == t:
            return plan  # a row at exactly t was there
        before = [s for s in visible if t - 2 * difference <= s and s + difference < t]
        previous = visible[max(before)].timestamp if before else visible[left].timestamp if left in visible else None
        if previous is not None and previous + 1 not in visible and previous + 1 + difference >= t:
            plan.append((previous + 1, self.fresh(t), False))
        if left not in visible:
            if previous is not None and previous >= left:
                plan.append((left, Entry(visible[max(before)].value, t), False))
            else:
                plan.append((left, self.fresh(t), False))
        reaching = [s for s in containing if s != left]
        if reaching and visible[reaching[0]].timestamp > t and t + 1 not in visible:
            latest = visible[reaching[0]]
            plan.append((t + 1, Entry(latest.value, latest.timestamp), True))
        return plan

    def early(self, visible: dict[int, Entry], t: int) -> list[tuple[int, Entry, bool]]:
        """The same for a row at t < D, whose left window is [0, D]."""
        later = sorted(s for s in visible if 0 < s <= t)
        plan = [(start, Entry(visible[start].value, visible[start].timestamp), False) for start in later]
        shared = visible.get(0)
        latest = visible[later[-1]] if later else shared
        if latest is not None and latest.timestamp > t and t + 1 not in visible:
            plan.append((t + 1, Entry(latest.value, latest.timestamp), True))
        if shared is not None and shared.timestamp < t and shared.timestamp + 1 not in visible:
            plan.append((shared.timestamp + 1, self.fresh(t), False))
        plan.append((0, self.fresh(t) if shared is None else Entry(shared.value, shared.timestamp), False))
        return plan

    def emit(self, limit: int) -> list[Update]:
        _, difference, grace = self.case.windows
        due = sorted(
            (start, key.encode() + bytes(4), key)
            for key, start in self.entries
            if start + difference < limit and (self.emitted_to is None or start + difference >= self.emitted_to)
        )
        if self.emitted_to is None or limit > self.emitted_to:
            self.emitted_to = limit
        if self.case.semantics == "kafka":
            due = [each for each in due if each[0] >= self.written - (2 * difference + grace)]
        return [
            Update(
                key, start, start + difference, self.entries[key, start].value, None, self.entries[key, start].timestamp
            )
            for start, _, key in due
        ]


class TableModel:
    """No windows: a running aggregate, or the latest value."""

    def __init__(self, case: Case, counts: Counts) -> None:
        self.case, self.counts = case, counts
        self.entries: dict[str, Entry] = {}

    def row(self, key: str | None, value: Any, timestamp: int) -> list[Update]:
        latest = self.case.aggregate == "table"
        if key is None or (value is None and not latest):
            self.counts.null += 1
            return []
        entry = self.entries.pop(key, None)
        if latest:
            old, new, newest = None if entry is None else entry.value, value, timestamp
        else:
            old = initial(self.case) if entry is None else entry.value
            new = plus(self.case, old, value)
            newest = timestamp if entry is None else max(timestamp, entry.timestamp)
        if new is not None:
            self.entries[key] = Entry(new, newest)
        return [Update(key, None, None, new, old, newest)]


class StepModel:
    """filter and map_values."""

    def __init__(self, kind: str, knows_old: bool) -> None:
        self.kind, self.knows_old = kind, knows_old

    def value(self, value: Any) -> Any:
        if value is None:
            return None
        if self.kind == "map":
            return mapped(value)
        return value if keeps(value) else None

    def take(self, update: Update) -> list[Update]:
        new = self.value(update.new)
        old = self.value(update.old) if self.knows_old else None
        if self.kind == "filter" and self.knows_old and new is None and old is None:
            return []
        return [update._replace(new=new, old=old)]


def run(case: Case) -> Outcome:
    """What must come of a case."""
    counts = Counts()
    head = {
        "time": TimeModel,
        "unlimited": TimeModel,
        "session": SessionModel,
        "sliding": SlidingModel,
        "none": TableModel,
    }[case.windows[0]](case, counts)
    knows_old = case.aggregate != "table" or any(step[0] in ("final", "limit") for step in case.steps)
    steps = [
        StepModel(step[0], knows_old) if step[0] in ("filter", "map") else SuppressModel(case, step)
        for step in case.steps
    ]
    buffers = [step for step in steps if isinstance(step, SuppressModel)]
    outcome = Outcome()
    for at, (key, value, timestamp) in enumerate(case.rows):
        released: list[Update] = []
        try:
            for update in head.row(key, value, timestamp):
                pass_on(update, steps, released)
        except Full as full:
            outcome.error = (at, *full.args[1:])
        outcome.released.append(
            [
                (u.key, u.new, u.timestamp) if u.start is None else (u.key, u.start, u.end, u.new, u.timestamp)
                for u in released
            ]
        )
        outcome.held.append((sum(len(b.held) for b in buffers), sum(b.weight() for b in buffers)))
        if outcome.error:
            break
    outcome.late, outcome.null = counts.late, counts.null
    return outcome


def pass_on(update: Update, steps: list[Any], released: list[Update]) -> None:
    """Through all steps before the next update is made."""
    if not steps:
        released.append(update)
        return
    full = None
    try:
        following = steps[0].take(update)
    except Full as error:
        full, following = error, error.args[0]
    for each in following:
        pass_on(each, steps[1:], released)
    if full is not None:
        raise full
