"""The keeper of a windowed stage's state: when its entries are written, which marks pass, what a new partition waits for.

When the stage is asked to stop (each commit interval), it stops at the next mark (`engine/marks/part_state.py`): the entries of everything that
changed since the last stop are written. Unlike a sink, the stage does not hold its input meanwhile: rows may change the state, and the next stop
writes their entries. Which marks pass is up to the changelog (`MarksPass`):

* In a transaction the mark of a stop passes at once, because the sinks behind the stage must reach the mark before everything is committed
  together. Other marks do not pass: windows behind these stop at the same marks.
* Without a transaction every mark passes where the source counts what is done. The entries are written when the sinks have done the mark of the
  stop, and the mark counts as done when the entries are acknowledged. So after a crash the state is never ahead of the results, nor the positions
  ahead of the state. The stage may wait until the sinks reach any mark, so windows further down, which stop at times of their own, must not hold
  it.
* Where offsets are committed by hand, the mark of a stop waits for the entries, and other marks do not pass.

Results that stem from no row (silence has closed their windows, or the wall clock has called a processor) are emitted behind positions that the sinks
may have done. So a mark that passes at once has an entry of the stage's own, `OwnResults`, which the sinks report like a position. In a
transaction their partition is not given away before they are committed (`may_give`). While a partition is being revoked, its windows emit results
only for rows and for the end of the input.

When the input has ended, the last mark passes although an earlier stop waits, and the stage completes its outlets behind it: a stage further down may
keep elements until its input ends, and the stop may wait for their results. The stage itself ends when its last entries are written.

Owner: the stage's island; `cut`, `committed`, `handed_over`, `restored` and `failed` may be called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Protocol

from streamactors.engine.island.connection import Connection, RunningStage
from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import NOWHERE, Assigned, Key, Mark, PositionMark
from streamactors.engine.marks.part_state import PartStand, PartState
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.stage.turns import Turns
from streamactors.windows.state.changelogs import Changelog, MarksPass, Provider, StandbyCopy, changelogs_of
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.window_task import WindowTask


class KeptStage(RunningStage, Protocol):
    """The windowed stage as its keeper sees it."""

    in_: Connection
    factory: TaskFactory
    tasks: PartitionTasks
    turns: Turns
    ids: TaskIds

    @property
    def run(self) -> Run: ...
    def put_mark(self, mark: Mark, /) -> None: ...
    def drain(self) -> None: ...
    def async_callback(self, handler: Callable[[Any], None], /) -> Any: ...


class Keeper:
    """See the module. `carried`: the sources whose marks reach the stage. `finished`: the last entries are handed over to a transaction, or are committed."""

    def __init__(self, stage: KeptStage) -> None:
        self.stage = stage
        self._task_of = stage.ids.of_input
        self.standing = PartState(stage.in_.carries)
        self.finished = False
        self.gives_nothing_more = False
        self._changelog: Changelog | None = None
        self._waiting: Assigned | None = None  # the partition whose state is being read
        self._reading: set[Any] = set()
        self._hurried = False
        self._untouched = True  # no row was taken since the last stop
        self._gave = False  # results that stem from no row were emitted since the last stop
        self._own_marks = 0
        self._epochs: dict[Key, int] = {}  # of the assignments of the inputs
        self._last_mark: PositionMark | None = None  # it has passed at the end, while an earlier stop waits
        self._reads: list[Callable[[], Callable[[], None]]] = []
        self._answers: list[Callable[[], None]] = []  # of reads of the state that is being committed
        self._restored: dict[Any, WindowTask] = {}

    @property
    def carried(self) -> frozenset[Any]:
        return self.standing.carried

    @property
    def provider(self) -> Provider | None:
        """The source that keeps the changelog; known when the run is built."""
        return changelogs_of(self.stage.run).provider_of(self.carried)

    def topics(self, application: str) -> Mapping[str, str]:
        """The changelog topics of the stage, by store."""
        return self.stage.factory.changelog_topics(application)

    @property
    def max_task_idle_ms(self) -> int | None:
        """How long the tasks wait for an input without rows; None: they do not wait."""
        return self.stage.turns.max_task_idle_ms

    @property
    def tasks(self) -> Mapping[Any, WindowTask]:
        """The tasks of the partitions that are assigned now."""
        return self.stage.tasks.tasks

    @property
    def orders_topics(self) -> bool:
        """True if the tasks take rows of several topics in the order of timestamps, which is not the order of arrival."""
        several = self.provider is not None and self.provider.several_topics
        return several and not self.standing.follows and self.max_task_idle_ms is not None

    def open(self, provider: Provider) -> None:
        """Begin, when the stage starts. Raises BuildError."""
        self._changelog = provider.open(self, self.topics(provider.application), self.stage.tasks.factory)

    @property
    def is_restoring(self) -> bool:
        """True while the state of a partition is being read: nothing behind its assignment may be taken."""
        return self._waiting is not None

    @property
    def restoring(self) -> int:
        """Number of partitions whose state is being read; any thread."""
        return len(self._reading)

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────────────

    def cut(self, target: PositionMark) -> None:
        """Stop at the next mark that is not before `target`: write the entries that changed up to it. The module says when that mark passes."""
        self.stage.async_callback(self._on_cut).invoke(target)

    def committed(self) -> None:
        """The entries written last are committed."""
        self.stage.async_callback(self._on_committed).invoke(None)

    def handed_over(self) -> None:
        """The last entries are handed over to the open transaction; the stage need not wait for its commit."""
        self.stage.async_callback(self._on_handed_over).invoke(None)

    def restored(self, tasks: dict[Any, WindowTask]) -> None:
        """The tasks of partitions, with their state."""
        self.stage.async_callback(self._on_restored).invoke(tasks)

    def failed(self, error: BaseException) -> None:
        """The state cannot be kept or restored."""
        self.stage.async_callback(self.stage.fail_stage).invoke(error)

    def sinks_behind(self) -> set[object]:
        """Return the sinks that see a mark only when it is committed: none, for marks pass before."""
        return set()

    def dropped_before(self, target: PositionMark) -> bool:
        """True if the stream was stopped while the stage held rows before `target`, which the next run reads; once the stage has ended."""
        return any(place < target.get(key, NOWHERE) for key, place in self.stage.turns.dropped_from.items())

    def read_copies(self, read: Callable[[Sequence[StandbyCopy] | None], None]) -> None:
        """Call `read` with the standby copies of other instances' tasks, None if there are none."""
        if self._changelog is None:
            read(None)
        else:
            self._changelog.read_copies(read)

    # ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_cut(self, target: PositionMark) -> None:
        self.standing.ask(target)
        # Rows may be held for rows of another topic, which arrive only after the other parts reach this mark: take those before it first.
        if not (target and self.stage.turns.stop_at(target)):
            self._try_to_stop()
        self.stage.drain()

    def taken(self) -> None:
        """Rows were taken: the state is between two marks."""
        self._untouched = False
        self.standing.took()

    def touched(self) -> None:
        """The state has changed without a row."""
        self._untouched = False

    def may_give(self, inputs: Iterable[Key], *, last: bool = False) -> bool:
        """Ask before results are emitted that stem from no row of these inputs; `gave` must follow if True. False if the next owner of an input emits
        them. `last`: they are the results of the end of the input."""
        if self._changelog is None:
            return True
        epochs = self._epochs
        return self._changelog.may_give({key: epochs[key] for key in inputs if key in epochs}, last=last)

    def gave(self, results: bool) -> None:
        """What `may_give` was asked for has happened. With `results` no position says when the sinks have done them."""
        if results:
            self._untouched, self._gave = False, True
        elif self._changelog is not None:
            self._changelog.gave_nothing()

    def pressed(self) -> None:
        """The changes since the last cut fill the memory of a task: ask for the next cut at once. Once per cut."""
        if self._changelog is not None and not self._hurried:
            self._hurried = True
            self._changelog.hurry()

    def revoked(self, partition: Any) -> None:
        """A partition was revoked."""
        if self._changelog is not None:
            self._changelog.revoked(partition)

    def when_committed(self, read: Callable[[], Callable[[], None]]) -> None:
        """Call `read` on a state that is committed, or that the next cut writes; what it returns is called once that is committed."""
        if self._untouched and self.standing.stand in (PartStand.FLOWING, PartStand.OVER):
            read()()
        else:
            self._reads.append(read)

    def position(self, mark: PositionMark) -> None:
        """A position mark has come: everything before it is in the state."""
        self.standing.mark(mark)
        stopped = self._try_to_stop()
        if not stopped and self._changelog is not None and self._changelog.marks_pass is MarksPass.EVERY:
            self.stage.put_mark(mark)

    def complete(self) -> None:
        """The input has ended and its last results are out: write the rest, once the entries before are committed."""
        self.standing.end()
        self._try_to_stop()
        if self._changelog is not None and self._changelog.marks_pass is not MarksPass.WRITTEN:
            if not self.standing.has_given_all:
                self._last_mark = self._put_mark(self.standing.at)
            self.gives_nothing_more = True

    def _try_to_stop(self) -> bool:
        """Stop if the stage was asked and stands at a mark for it. Return whether it stopped."""
        changelog = self._changelog
        if changelog is None or not self.standing.may_stop:
            return False
        at = self.standing.stop()
        self._hurried = False
        self.stage.turns.go_on()
        if self._last_mark is not None:
            at = self._last_mark
        elif changelog.marks_pass is not MarksPass.WRITTEN:
            at = self._put_mark(at)
        tasks = self.stage.tasks
        changes = [(partition, tasks.changes(partition)) for partition in tasks.tasks]
        self._untouched = True
        reads, self._reads = self._reads, []
        self._answers += [read() for read in reads]
        changelog.write(changes, at, self.standing.has_given_all)
        return True

    def _put_mark(self, at: PositionMark) -> PositionMark:
        """Let a mark pass behind the results so far, an empty one too: parts behind this stage stop at it. Return the mark as it passes."""
        assert self._changelog is not None
        at = at | self._own_mark()
        self._gave = False
        self.stage.put_mark(at)
        return at

    def _own_mark(self) -> PositionMark:
        """Return a mark for the results that stem from no row. The sinks may have done every position before these results were emitted."""
        name = self.stage.run.own_results.get(self.stage) if self._gave else None
        if name is None:
            return {}
        self._own_marks += 1
        return {(name, 0): (1, self._own_marks)}

    def _on_handed_over(self, _: None) -> None:
        self.finished = self.standing.has_given_all
        self.stage.drain()

    def _on_committed(self, _: None) -> None:
        if not self.standing.committed():
            return
        assert self._changelog is not None
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()
        if self._changelog.marks_pass is MarksPass.WRITTEN:
            self.stage.put_mark(self.standing.stopped_at)
        self.finished = self.standing.stand is PartStand.OVER
        self._try_to_stop()
        self.stage.drain()

    # ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────

    def joined(self, signal: Assigned) -> None:
        """An input is assigned, the first of its task or another one."""
        self._epochs[signal.key] = signal.epoch

    def assigned(self, signal: Assigned) -> None:
        """A partition is assigned: read its state and that of the partitions assigned right behind it; then go on."""
        self._waiting = signal
        partition = self._task_of(signal.key[1])
        if partition in self._restored:
            self._install()
            return
        behind = takewhile(lambda item: isinstance(item, Assigned), self.stage.in_.items)
        names = {self._task_of(each.key[1]): each.key[1] for each in reversed([signal, *behind])}
        wanted = [name for number, name in names.items() if self._is_new(number)]
        self._reading.update(map(self._task_of, wanted))
        if wanted:
            assert self._changelog is not None
            self._changelog.restore(wanted)

    def _is_new(self, number: Any) -> bool:
        return number not in self._reading and number not in self._restored and number not in self.stage.tasks.tasks

    def _on_restored(self, tasks: dict[Any, WindowTask]) -> None:
        self._reading -= tasks.keys()
        self._restored.update(tasks)
        if self._waiting is not None and self._task_of(self._waiting.key[1]) in self._restored:
            self._install()
        self.stage.drain()

    def _install(self) -> None:
        signal, self._waiting = self._waiting, None
        assert signal is not None
        number = self._task_of(signal.key[1])
        self.stage.tasks.install(number, self._restored.pop(number))
        self.stage.put_mark(signal)

    def close(self, error: BaseException | None) -> None:
        """The stage has stopped."""
        if self._changelog is not None:
            self._changelog.close(error, self.finished)
