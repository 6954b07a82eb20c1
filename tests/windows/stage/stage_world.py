"""The simulated surroundings of a windowed stage: a source, tasks, a sink that may keep elements, and a changelog.

`StageWorld` carries the effects of the state machine out and steps the events that follow, as `window_logic.py` does. Its tasks keep rows until a row,
silence, the wall clock or the end closes them: one result has all the rows it closes. The test moves everything else: demand, marks, cuts, commits.

What must never happen is an AssertionError with the name of the law. The file is long because the laws look into every part of one world."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from streamactors.engine.marks.marks import (
    NOWHERE,
    Assigned,
    EndOfInput,
    Idle,
    Key,
    PositionMark,
    Revoked,
    TimerResults,
    merge_newer,
)
from streamactors.windows import Record, RecordContext
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage import stage_effects as ef
from streamactors.windows.stage import stage_events as ev
from streamactors.windows.stage.stage_state import Phase, StageState
from streamactors.windows.state.changelogs import MarksPass

SOURCE = "s"
OWN = TimerResults(7)
NO_LIMIT = 10_000
COMPLETE: Any = object()


class Partition(NamedTuple):
    topic: str
    partition: int


class Task:
    """`kept`: rows that no result has yet. `seen`: all rows of its life."""

    def __init__(self, kept: Sequence[Record] = (), seen: Sequence[Record] = ()) -> None:
        self.kept, self.seen = list(kept), list(seen)

    def copy(self) -> Task:
        return Task(self.kept, self.seen)

    def process(self, rows: Sequence[Record]) -> list[tuple[Record, ...]]:
        results = []
        for row in rows:
            self.seen.append(row)
            self.kept.append(row)
            if row.value == "closes":
                results += self.close()
        return results

    def close(self) -> list[tuple[Record, ...]]:
        kept, self.kept = self.kept, []
        return [tuple(kept)] if kept else []


class Entries(NamedTuple):
    """What the stage has written and the changelog has not acknowledged."""

    at: PositionMark
    ended: bool
    tasks: dict[Any, Task]
    closed: int
    """Number of results that this state has given."""


class StageWorld:
    """`marks_pass`: None for a stage without a changelog. `keeps`: number of elements that the stage downstream keeps until its input ends."""

    def __init__(
        self, marks_pass: MarksPass | None, *, topics: int = 1, partitions: int = 1, keeps: int = 0, limit: int = 4
    ) -> None:
        self.marks_pass, self.keeps, self.limit = marks_pass, keeps, limit
        keeps_changelog = marks_pass is not None
        self.state = StageState(frozenset((SOURCE,)), TaskIds(), 0, keeps_changelog=keeps_changelog)
        self.state.begin({SOURCE: False}, None if marks_pass is None else (marks_pass, OWN))
        self.now_ms = 0.0
        # the source
        self.keys: list[Key] = [
            (SOURCE, Partition(f"topic-{topic}", number)) for topic in range(topics) for number in range(partitions)
        ]
        self.offsets = dict.fromkeys(self.keys, 0)
        self.inlet: deque[Any] = deque()
        self.held, self.wanted = True, 0
        self.sent: list[Record] = []
        self.given_back: dict[Key, int] = {}
        self.has_ended = False
        # the stage
        self.tasks: dict[Any, Task] = {}
        self.to_restore: deque[list[Any]] = deque()
        self.restored: dict[Any, Task] = {}
        self.taken: list[Record] = []
        self.queue: deque[Any] = deque()
        self.timers: dict[ev.Timer, float] = {}
        self.may_give = True
        self.fails_at: int | None = None
        self.failed = False
        # downstream
        self.asked = 0
        self.emitted: list[tuple[Record, ...]] = []
        self.kept_downstream: deque[Any] = deque()  # results, and marks after them
        self.done: list[tuple[Record, ...]] = []
        self.done_at: PositionMark = {}
        self.outlets_complete = 0
        self.completed = 0
        self.failure: BaseException | None = None
        # the changelog
        self.entries: list[Entries] = []
        self.committed_at: PositionMark = {}
        self.committed_tasks: dict[Any, Task] = {}
        self.last_written = False
        self.commits = 0
        self.closed: list[tuple[Record, ...]] = []
        self.answers = 0
        self._look()
        for key in self.keys:
            self.put(Assigned(key, 1, 0))

    # ── what a test may do ────────────────────────────────────────────────────────────────────────────────────────

    def send(self, key: Key, values: Sequence[str]) -> None:
        """The source emits rows of an input, and a mark after them."""
        first = self.offsets[key]
        rows = [
            Record("k", value, self._time(key, first + at), RecordContext(key[1].topic, key[1].partition, first + at))
            for at, value in enumerate(values)
        ]
        self.offsets[key] += len(rows)
        self.sent += rows
        if rows:
            self.inlet.append(rows)
        self.put({key: (1, self.offsets[key])})

    @staticmethod
    def _time(key: Key, offset: int) -> int:
        return offset * (2 if key[1].topic == "topic-0" else 3)

    def put(self, item: Any) -> None:
        """Put a mark into the inlet."""
        self.inlet.append(item)
        self.pump()

    def ask(self, count: int) -> None:
        """Downstream asks for more."""
        self.asked += count
        self._look()
        self.pump()

    def cut(self, target: PositionMark | None = None) -> None:
        self.step(ev.Cut(target or {}))

    def go_on_to_the_furthest(self) -> None:
        """In a transaction another part has stopped at a further mark."""
        if self.marks_pass is MarksPass.STOPS and self.entries:
            self.cut({key: (1, offset) for key, offset in self.offsets.items()})

    def wall(self) -> None:
        self.step(ev.Due(ev.Timer.WALL))

    def silence(self, key: Key) -> None:
        self.put(Idle(key, silent_ms=1_000))

    def fire(self) -> None:
        """Let the first timer come due."""
        if self.timers:
            timer = min(self.timers, key=lambda each: self.timers[each])
            self.now_ms = max(self.now_ms, self.timers.pop(timer))
            self.step(ev.Due(timer))

    def restore(self) -> None:
        """A state that was asked for has been read."""
        if self.to_restore:
            tasks = {number: self.committed_tasks.get(number, Task()).copy() for number in self.to_restore.popleft()}
            self.restored.update(tasks)
            self.step(ev.Restored(frozenset(tasks)))

    def revoke(self, key: Key) -> None:
        """The only input of a task is revoked, when its rows are in the state and the state is committed; then it is assigned here again."""
        self.may_give = False
        self.settle()
        self.settle()  # a cut may have come before the last rows
        self.may_give = True
        if not self.has_ended and not self.inlet:
            self.put(Revoked(key, 1))
            self.put(Assigned(key, 1, self.offsets[key]))

    def end(self, *, by_itself: bool) -> None:
        """The input ends; `by_itself`: not because it was stopped."""
        if not self.has_ended:
            self.has_ended = True
            for key in self.keys if by_itself else ():
                self.put(EndOfInput(key))
            self.put(COMPLETE)

    def commit(self) -> bool:
        """The changelog writes the oldest entries, if the sinks are where they must be. Return whether it did."""
        if not self.entries:
            return False
        furthest = self.entries[-1] if self.marks_pass is MarksPass.STOPS else self.entries[0]
        if self.marks_pass is not MarksPass.WRITTEN and self._lacks(self.done_at, furthest.at):
            return False
        written = list(self.entries) if self.marks_pass is MarksPass.STOPS else self.entries[:1]
        del self.entries[: len(written)]
        for each in written:
            self._check_written(each)
            merge_newer(self.committed_at, each.at)
            self.committed_tasks |= each.tasks
            self.last_written = self.last_written or each.ended
        self.commits += 1
        self.step(ev.Committed())
        return True

    def settle(self) -> None:
        """Everything goes as far as it can: demand, restores, one more cut, commits."""
        self.cut()
        for _ in range(200):
            self.ask(NO_LIMIT)
            before = self._progress()
            self.restore()
            self.commit()
            if self.has_ended:
                self.fire()
            if self._progress() == before:
                return

    def _progress(self) -> Any:
        return (
            len(self.inlet),
            len(self.emitted),
            len(self.done),
            dict(self.done_at),
            dict(self.committed_at),
            self.state.phase,
            len(self.timers),
            len(self.to_restore),
            self.commits,
            self.last_written,
        )

    # ── laws that hold at the end ─────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        """Let the stream end, and check what must hold then."""
        self.end(by_itself=False)
        self.settle()
        if self.failure is not None:
            return
        assert self.state.phase is Phase.OVER, f"it does not end: {self.state.phase.name}"
        assert self.completed == 1, "it completes once"
        assert self.marks_pass is None or self.last_written, "the last entries are written"
        self.check_no_row_is_lost()
        assert not self.kept_downstream, "the sink has everything"

    def check_no_row_is_lost(self) -> None:
        results = [row for result in self.emitted for row in result]
        kept = [row for task in self.tasks.values() for row in task.kept]
        given_back = [row for row in self.sent if row.context.offset >= self.given_back.get(key_of(row), NO_LIMIT)]
        found = sorted(map(place_of, results + kept + given_back))
        assert found == sorted(map(place_of, self.sent)), "no row is lost, and none comes twice"

    # ── the carrier ───────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, event: ev.Event) -> None:
        if self.completed or self.failure is not None:
            return  # the engine calls no stage that has ended
        self._step(event)
        self._look()
        self.pump()

    def pump(self) -> None:
        """Give the stage what is in the inlet, as far as it takes it."""
        while self.inlet and not self.held and self.failure is None and not self.completed:
            item = self.inlet[0]
            if type(item) is list:
                room = max(min(self.asked, self.limit), self.state.to_hold(self.asked))
                if not (self.wanted and room):
                    return
                chunk, rest = item[:room], item[room:]
                if rest:
                    self.inlet[0] = rest
                else:
                    self.inlet.popleft()
                self.wanted = 0
                self._step(ev.Rows(chunk))
            else:
                self.inlet.popleft()
                if item is COMPLETE:
                    self._step(ev.Completed())
                elif isinstance(item, dict):
                    self._step(ev.Passed(item))
                else:
                    self._step(ev.Arrived(item))
            self._look()

    def _step(self, event: ev.Event) -> bool:
        effect: ef.Effect | None = None
        for effect in self.state.step(event):
            self._carry_out(effect)
        return type(effect) is ef.Again

    def _look(self) -> None:
        if self.failure is not None or self.completed:
            return
        again = True
        while again:
            self._emit()
            room = min(self.asked, self.limit)
            again = self._step(ev.Ready(self.now_ms, self.asked, room, 16, waiting=bool(self.queue)))

    def _carry_out(self, effect: ef.Effect) -> None:
        assert not self.completed, "nothing happens after the end"
        match effect:
            case ef.Process(rows):
                self._process(rows)
            case ef.PutMark(mark):
                self.queue.append(mark if not isinstance(mark, dict) else mark.copy())
            case ef.Give(key, owners, task, silent_ms):
                if self.may_give or silent_ms is None:
                    assert set(owners) <= set(self.keys)
                    tasks = self.tasks if task is None else {task: self.tasks[task]}
                    self._give([result for each in tasks.values() for result in each.close()], key)
            case ef.CallByWall():
                if self.may_give:
                    self._give([result for each in self.tasks.values() for result in each.close()], None)
            case ef.NewTask(task):
                self.tasks[task] = Task()
            case ef.DropTask(task):
                self.tasks.pop(task, None)
            case ef.Restore(wanted):
                self.to_restore.append([each.partition for each in wanted])
            case ef.Install(task):
                self.tasks[task] = self.restored.pop(task)
            case ef.Write(at, ended):
                tasks = {name: each.copy() for name, each in self.tasks.items()}
                self.entries.append(Entries(at.copy(), ended, tasks, len(self.closed)))
                if ended and self.marks_pass is MarksPass.STOPS:
                    self.state.step(ev.HandedOver())
                    self.last_written = True
            case ef.Schedule(timer, delay_ms):
                self.timers[timer] = self.now_ms + delay_ms
            case ef.HoldInlet():
                self.held = True
            case ef.TakeRows(most):
                assert not self.queue, "nothing is taken while results wait"
                self.held, self.wanted = False, most
            case ef.GiveBack(key, place):
                self.given_back[key] = place[1]
            case ef.CompleteOutlets():
                self._complete_outlets()
            case ef.CompleteStage():
                assert not self.queue, "it does not complete while results wait"
                self.completed += 1
                self._complete_outlets()
            case ef.FailStage(error):
                assert not self.queue, "what was given before the failure goes out first"
                self.failure = error
                self.state.fail(error)
            case ef.Then(event):
                self._step(event)
            case ef.Answer():
                self.answers += 1
            case ef.EndTasks() | ef.LookForSilence() | ef.Hurry():
                raise AssertionError(effect)
            case _:
                pass

    def _process(self, rows: list[Record]) -> None:
        results: list[tuple[Record, ...]] = []
        for row in rows:
            if self.fails_at is not None and len(self.taken) >= self.fails_at:
                self.failed = True
                self._put(results)
                self._step(ev.Failed(ValueError("a row")))
                return
            self.taken.append(row)
            results += self.tasks[row.context.partition].process([row])
        self._put(results)
        self._step(ev.Processed())

    def _give(self, results: list[tuple[Record, ...]], key: Key | None) -> None:
        self._put(results)
        if results:
            self._step(ev.Gave(key))

    def _put(self, results: list[tuple[Record, ...]]) -> None:
        self.queue.extend(results)
        self.closed += results

    # ── downstream ────────────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self) -> None:
        while self.queue:
            item = self.queue[0]
            if type(item) is tuple:
                if not self.asked:
                    return
                self.asked -= 1
                self.emitted.append(item)
            self.queue.popleft()
            assert not self.outlets_complete, "nothing is emitted after the outlets have completed"
            if isinstance(item, dict):
                self._check_mark(item)
            self.kept_downstream.append(item)
        self._pass_on(self.keeps)

    def _pass_on(self, keeps: int) -> None:
        """The stage downstream keeps its last elements, and so the marks after them."""
        elements = sum(type(each) is tuple for each in self.kept_downstream)
        while self.kept_downstream:
            if type(self.kept_downstream[0]) is tuple:
                if elements <= keeps:
                    return
                elements -= 1
                self.done.append(self.kept_downstream.popleft())
            else:
                mark = self.kept_downstream.popleft()
                if isinstance(mark, dict):
                    merge_newer(self.done_at, mark)

    def _complete_outlets(self) -> None:
        self.outlets_complete += 1
        self._emit()
        self._pass_on(0)

    # ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_mark(self, mark: PositionMark) -> None:
        """No mark overtakes a row: what stems from before a position is emitted, or still kept by a task; nothing after it has left before."""
        given = {place_of(row) for result in self.emitted for row in result}
        known = self.committed_tasks | self.tasks  # the state of a task that is being restored is committed
        kept = {place_of(row) for task in known.values() for row in task.kept}
        for key, place in mark.items():
            if key[0] != SOURCE:
                continue
            rows = [row for row in self.sent if key_of(row) == key and row.context.offset < place[1]]
            taken = set(map(place_of, self.taken))
            waiting = {place_of(row) for item in self.queue if type(item) is tuple for row in item}
            for row in rows:
                at = place_of(row)
                assert at in taken, "no mark overtakes a row"
                assert at in given or at in kept or at in waiting, "no mark overtakes a row"
        if self.marks_pass is MarksPass.WRITTEN:
            assert not self._lacks(self.committed_at, mark), "the entries are written before the mark passes"

    def _check_written(self, entries: Entries) -> None:
        """After a crash the state is not ahead of the results: what it has closed, the sinks have."""
        if self.marks_pass is not MarksPass.WRITTEN:
            missing = [result for result in self.closed[: entries.closed] if result not in self.done]
            assert not missing, f"the state is ahead of the results: {missing}"
        for key, place in entries.at.items():
            if key[0] == SOURCE and key[1].partition in entries.tasks:
                seen = {
                    row.context.offset for task in entries.tasks.values() for row in task.seen if key_of(row) == key
                }
                assert seen >= set(range(place[1])), "the position is not ahead of the state"

    @staticmethod
    def _lacks(at: PositionMark, target: PositionMark) -> bool:
        return any(at.get(key, NOWHERE) < place for key, place in target.items())


def key_of(row: Record) -> Key:
    assert row.context is not None
    return SOURCE, Partition(row.context.topic, row.context.partition)


def place_of(row: Record) -> tuple[str, int, int]:
    assert row.context is not None
    return row.context.topic, row.context.partition, row.context.offset
