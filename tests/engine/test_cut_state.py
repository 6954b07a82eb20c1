"""The cut of a run and its parts: whatever order their messages come in, a commit covers what every part has written, and nothing else.

Each part has its own pace: it takes items of one stream (rows and marks of two partitions) in its own time, messages between the parts and
the cut wait in queues of their own, and what lies in a transaction is counted."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamactors.engine.marks.cut_state import MOVES, CutPhase, CutState, Release, ReportedPhase, Settle, Stop
from streamactors.engine.marks.marks import PositionMark
from streamactors.engine.marks.part_state import PartPhase, PartState

SOURCE = frozenset(("s",))
Row = tuple[int, int]  # partition, offset


def stream(rng: random.Random, length: int) -> list[Row | PositionMark]:
    """Chunks of rows of two partitions, a mark behind each chunk, as sources make them."""
    places, items = [0, 0], []
    while len(items) < length:
        partition = rng.randint(0, 1)
        for _ in range(rng.randint(0, 3)):
            items.append((partition, places[partition]))
            places[partition] += 1
        items.append({("s", partition): (1, places[partition])})
    return items


class SimPart:
    """A part: `holds`, as a sink does, while it stands; a keeper (`holds` false) takes rows on, and lets marks through when it stops."""

    def __init__(self, name: str, run: Run, items: deque[Any], *, holds: bool) -> None:
        self.name, self._run, self._items, self._holds = name, run, items, holds
        self.part_state = PartState(SOURCE)
        self.inbox: deque[Any] = deque()
        self.outbox: deque[tuple[PositionMark, bool]] = deque()
        self.behind: deque[Any] | None = None  # what a part behind this one will see
        self.taken: list[Row] = []
        self.written: list[Row] = []  # as of the last stop
        self.input_over = self.told_end = False

    def cut(self, target: PositionMark) -> None:
        self.inbox.append(("cut", target))

    def committed(self) -> None:
        self.inbox.append(("committed", None))

    def failed(self, error: BaseException) -> None:
        self.inbox.append(("failed", error))

    def sinks_behind(self) -> set[object]:
        return set()

    @property
    def can_take(self) -> bool:
        held = self._holds and self.part_state.phase is PartPhase.STOPPED
        return not held and bool(self._items or (self.input_over and not self.told_end))

    def take(self) -> None:
        """Take the next item of the stream."""
        if not self._items:
            self.told_end = True
            self.part_state.end()
        elif isinstance(item := self._items.popleft(), dict):
            self.part_state.mark(item)
        else:
            self.taken.append(item)
            self.part_state.took()
            if self.behind is not None:
                self.behind.append(item)
        self._try_to_stop()

    def hear(self) -> None:
        """Take the next message of the run."""
        kind, target = self.inbox.popleft()
        if kind == "cut":
            self.part_state.ask(target)
        elif kind == "committed":
            assert self.part_state.committed(), f"{self.name} was released where it did not stand"
        self._try_to_stop()

    def _try_to_stop(self) -> None:
        if self.part_state.may_stop:
            at = self.part_state.stop()
            self.written = self.taken.copy()
            if self.behind is not None:
                self.behind.append(at)
            self.outbox.append((at, self.part_state.ended))


class Run:
    """The owner of the cut, its parts, and the sink beside them."""

    def __init__(self, rng: random.Random, *, sinks: int, keeper: bool, length: int) -> None:
        items = stream(rng, length)
        self.items = items
        self.cut = CutState()
        self.parts = [SimPart(f"sink {i}", self, deque(items), holds=True) for i in range(sinks)]
        if keeper:
            kept, behind = SimPart("keeper", self, deque(items), holds=False), deque[Any]()
            kept.behind = behind
            follower = SimPart("follower", self, behind, holds=True)
            follower.part_state.follows = True
            self.parts += [kept, follower]
        for part in self.parts:
            self.cut.add(part)
            part.input_over = part.name != "follower"
        self.settling: PositionMark | None = None
        self.commits: list[PositionMark] = []

    def carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Stop(part, target):
                    part.cut(target)
                case Release(part):
                    part.committed()
                case Settle(target):
                    assert self.settling is None
                    self.settling = target

    def hear(self, part: SimPart) -> None:
        at, ended = part.outbox.popleft()
        self.carry_out(self.cut.reached(part, at, ended=ended))

    def others_done(self) -> None:
        """The other sinks have done the target."""
        self.settling = None
        assert self.cut.settled()
        self.check_commit(self.cut.target)

    def commit(self) -> None:
        self.carry_out(self.cut.committed())

    def check_commit(self, target: PositionMark) -> None:
        """The law: each part has written every row before the target, and none behind it."""
        for part in self.parts:
            before = [row for row in part.written if row[1] < target.get(("s", row[0]), (1, 0))[1]]
            assert part.written == before, f"{part.name} has written rows behind the cut"
        for key, (_, place) in target.items():
            for part in self.parts:
                rows = [row for row in part.written if row[0] == key[1]]
                assert len(rows) == place, f"{part.name} lacks rows before the cut"
        for key, place in self.cut.committed_at.items():
            assert target.get(key, place) >= place, "a committed position went back"
        self.commits.append(target)

    def choices(self) -> list[Any]:
        """What may happen next, apart from the passing of time."""
        found: list[Any] = []
        for part in self.parts:
            if part.can_take:
                found.append(part.take)
            if part.inbox:
                found.append(part.hear)
            if part.outbox:
                found.append(lambda part=part: self.hear(part))
            if part.name == "keeper":
                self.parts[-1].input_over = part.part_state.phase is PartPhase.OVER or (
                    part.part_state.has_given_all and not part.outbox
                )
        if self.settling is not None:
            found.append(self.others_done)
        if self.cut.phase is CutPhase.COMMITTING:
            found.append(self.commit)
        return found

    def run_to_the_end(self, rng: random.Random) -> None:
        for _ in range(100_000):
            choices = self.choices()
            if not choices:
                break
            rng.choice(choices)()
        assert self.cut.phase is CutPhase.OVER, f"stuck in {self.cut.phase}"
        for part in self.parts:
            assert part.part_state.phase is PartPhase.OVER
            assert part.written == part.taken


@pytest.mark.parametrize("first", range(0, 3_000, 300))
def test_each_commit_covers_what_every_part_has_written_and_every_run_ends(first: int) -> None:
    for seed in range(first, first + 300):
        rng = random.Random(seed)
        run = Run(rng, sinks=rng.randint(0, 3) or 1, keeper=rng.random() < 0.5, length=rng.randint(0, 40))
        for _ in range(rng.randint(0, 300)):
            choices = run.choices()
            if rng.random() < 0.1:
                run.carry_out(run.cut.ask(urgent=rng.random() < 0.3))
            elif choices:
                rng.choice(choices)()
        run.run_to_the_end(rng)


class Cuts(RuleBasedStateMachine):
    """The same run, with failures, cancelled parts and hypothesis at the dice."""

    @initialize(seed=st.integers(0, 1_000), sinks=st.integers(1, 3), keeper=st.booleans(), length=st.integers(0, 25))
    def begin(self, seed: int, sinks: int, keeper: bool, length: int) -> None:
        self.rng = random.Random(seed)
        self.run = Run(self.rng, sinks=sinks, keeper=keeper, length=length)
        self.phase = CutPhase.WRITING
        self.failed = False

    @precondition(lambda self: not self.failed)
    @rule(data=st.data())
    def something_happens(self, data: Any) -> None:
        choices = self.run.choices()
        if choices:
            choices[data.draw(st.integers(0, len(choices) - 1))]()

    @precondition(lambda self: not self.failed)
    @rule(urgent=st.booleans())
    def the_interval_has_passed(self, urgent: bool) -> None:
        self.run.carry_out(self.run.cut.ask(urgent=urgent))

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), finished=st.booleans())
    def a_part_leaves(self, data: Any, finished: bool) -> None:
        part = data.draw(st.sampled_from(self.run.parts))
        over, settled = self.run.cut.is_over, part.part_state.phase is PartPhase.OVER
        if finished and not part.part_state.has_given_all:
            return  # only the last entries may be committed without waiting
        must_abort = self.run.cut.left(part, finished=finished)
        if over or settled or finished:
            assert not must_abort
        if must_abort:
            assert part not in self.run.cut.abort(), "a part that has left hears nothing more"
            self.failed = True

    @precondition(lambda self: not self.failed)
    @rule()
    def a_failure(self) -> None:
        over = self.run.cut.is_over
        told = self.run.cut.abort()
        assert bool(told) <= (not over)
        self.failed = not over
        if self.failed:
            assert self.run.cut.phase is CutPhase.ABORTED
            assert not self.run.cut.settled()
            assert self.run.cut.abort() == []
            assert self.run.cut.ask(urgent=True) == []

    @precondition(lambda self: self.failed)
    @rule()
    def a_report_comes_after_the_failure(self) -> None:
        for part in self.run.parts:
            while part.outbox:
                at, ended = part.outbox.popleft()
                assert self.run.cut.reached(part, at, ended=ended) == []

    @invariant()
    def phases_move_along_the_table(self) -> None:
        if hasattr(self, "run"):
            seen, work = {self.phase}, [self.phase]
            while work:  # one rule may make several moves
                for to in MOVES[work.pop()] - seen:
                    seen.add(to)
                    work.append(to)
            assert self.run.cut.phase in seen
            self.phase = self.run.cut.phase

    @invariant()
    def nobody_writes_on_while_a_target_is_being_committed(self) -> None:
        if hasattr(self, "run") and self.run.cut.phase in (CutPhase.SETTLING, CutPhase.COMMITTING):
            phases = [known.phase for known in self.run.cut._parts.values()]
            assert all(phase in (ReportedPhase.STOPPED, ReportedPhase.ENDED, ReportedPhase.SETTLED) for phase in phases)

    def teardown(self) -> None:
        if hasattr(self, "run") and not self.failed:
            self.run.run_to_the_end(self.rng)


Cuts.TestCase.settings = settings(
    max_examples=300, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCuts = Cuts.TestCase
