"""The keeper of a windowed stage's state: when entries are written, which marks go on, what a new partition waits for.

Owner: the stage's island; `cut`, `committed`, `restored` and `failed` may be called from any thread. Position marks stop
here. When a cut is asked for (each commit interval), the next mark is let through: the entries of everything that changed
since the last cut are written, and behind the results so far goes the mark.

    flowing ──cut asked──► cutting ──a mark, nothing behind it──► written ──committed──► flowing
                              ▲                                      │
                              └──── the run must go on to a further mark, in the same transaction

With a transaction the mark goes on at once, because the sinks must reach it too before all is committed together. Without
one it does so too, where the source counts what is done: entries are written when the sinks have done what the mark stands
behind, and the mark is done when they are acknowledged. So the state is never ahead of the results, which a crash would
lose, nor the positions ahead of the state. Where offsets are committed by hand the mark waits for the entries."""

from __future__ import annotations

import enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from streamactors.engine.marks import Assigned, Position, PositionMark, merge_newer
from streamactors.windows.changelogs import Changelog, Provider, changelogs_of
from streamactors.windows.task import WindowTask
from streamactors.windows.tasks import number_of

if TYPE_CHECKING:
    from streamactors.windows.window_logic import WindowLogic

NOWHERE: Position = (0, -1)


class Cutting(enum.Enum):
    FLOWING = "marks are held back"
    ASKED = "the next mark is let through"
    WRITTEN = "entries are written, not committed"


class Keeper:
    """See the module. `carried`: the sources whose marks reach the stage."""

    def __init__(self, stage: WindowLogic) -> None:
        self.stage = stage
        self.carried: frozenset[Any] = stage.in_.carries
        self.follows = False  # behind another keeper, which lets only the marks of cuts through
        self.finished = False  # the last entries are written
        self._changelog: Changelog | None = None
        self._cutting = Cutting.FLOWING
        self._target: PositionMark = {}
        self._at: PositionMark = {}  # the state stems from everything before it, and while `_clean` from nothing else
        self._written_at: PositionMark = {}
        self._clean = True
        self._completing = False
        self._over = False  # the last entries are given away
        self._waiting: Assigned | None = None  # the partition whose state is being read
        self._reading: set[int] = set()
        self._restored: dict[int, WindowTask] = {}

    @property
    def provider(self) -> Provider | None:
        """Who keeps the changelog; known when the run is built."""
        return changelogs_of(self.stage.interpreter.island.run).provider_of(self.carried)

    @property
    def max_task_idle_ms(self) -> int | None:
        """How long its tasks wait for an input that has nothing; None: they do not."""
        return self.stage.intake.max_task_idle_ms

    @property
    def orders_topics(self) -> bool:
        """True if its tasks take rows of several topics in order of time, which is not that in which they come."""
        several = self.provider is not None and self.provider.several_topics
        return several and not self.follows and self.max_task_idle_ms is not None

    def open(self, provider: Provider) -> None:
        """Begin, when the stage starts. Raises BuildError."""
        factory = self.stage.tasks.factory
        self._changelog = provider.open(self, factory.changelog_topics(provider.application), factory.restored)

    @property
    def is_restoring(self) -> bool:
        """True while the state of a partition is being read: nothing behind its assignment may be taken."""
        return self._waiting is not None

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────────────

    def cut(self, target: PositionMark) -> None:
        """Let a mark through that is not before `target`, and write what changed until there."""
        self.stage.async_callback(self._on_cut).invoke(target)

    def committed(self) -> None:
        """What was written last is safe."""
        self.stage.async_callback(self._on_committed).invoke(None)

    def written(self) -> None:
        """The last entries are on their way."""
        self.stage.async_callback(self._on_written).invoke(None)

    def restored(self, tasks: dict[int, WindowTask]) -> None:
        """The tasks of partitions, with their state."""
        self.stage.async_callback(self._on_restored).invoke(tasks)

    def failed(self, error: BaseException) -> None:
        """The state cannot be kept or restored."""
        self.stage.async_callback(self.stage.fail_stage).invoke(error)

    def sinks_behind(self) -> set[object]:
        """The sinks that hear of a mark only when it is committed: none, marks go on before."""
        return set()

    def dropped_before(self, target: PositionMark) -> bool:
        """True if rows before `target` were held when the stream was stopped, and left to the next run; once the stage has ended."""
        return any(place < target.get(key, NOWHERE) for key, place in self.stage.turns.dropped_from.items())

    # ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_cut(self, target: PositionMark) -> None:
        if self._cutting is Cutting.WRITTEN and self._changelog is not None and not self._changelog.in_transaction:
            return  # the last entries, or those of a follower, were given away before the interval had passed: theirs is the next answer
        self._cutting, self._target = Cutting.ASKED, target
        # Others have stopped there: nothing of what is held rows wait for comes before they have been met.
        if not (target and self.stage.turns.stop_at(target)):
            self._try_to_cut()
        self.stage.drain()

    def taken(self) -> None:
        """Rows were taken: the state is between two marks."""
        self._clean = False

    def position(self, mark: PositionMark) -> None:
        """A position mark has come: everything before it is in the state."""
        merge_newer(self._at, mark)
        self._clean = True
        if self.follows and self._cutting is Cutting.FLOWING:
            self._cutting = Cutting.ASKED
            self._target = {}
        self._try_to_cut()

    def complete(self) -> None:
        """The input has ended and given out its last results: write the rest once nothing else waits for its commit."""
        self._completing = self._clean = True
        if self._cutting is Cutting.FLOWING:
            self._cutting = Cutting.ASKED
        self._try_to_cut()

    def _try_to_cut(self) -> None:
        changelog = self._changelog
        if self._cutting is not Cutting.ASKED or not self._clean or self._over or changelog is None:
            return
        if not self._completing and any(
            self._at.get(key, NOWHERE) < place for key, place in self._target.items() if key[0] in self.carried
        ):
            return
        self._cutting = Cutting.WRITTEN
        self.stage.turns.go_on()
        self._over = self._completing
        self._written_at = self._at.copy()
        if changelog.marks_first:
            self.stage.put_mark(self._at)  # also an empty one: those behind stop at it
        tasks = self.stage.tasks
        changes = [(partition, tasks.changes(partition)) for partition in tasks.tasks]
        changelog.write(changes, self._written_at, self._over)

    def _on_written(self, _: None) -> None:
        self.finished = self._over
        self.stage.drain()

    def _on_committed(self, _: None) -> None:
        if self._cutting is not Cutting.WRITTEN:
            return
        assert self._changelog is not None
        if not self._changelog.marks_first:
            self.stage.put_mark(self._written_at)
        self._cutting = Cutting.FLOWING
        if self._over:
            self.finished = True
        elif self._completing:
            self.complete()
        self.stage.drain()

    # ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────

    def assigned(self, signal: Assigned) -> None:
        """A partition is ours: read its state, together with that of those assigned right behind it; then go on."""
        self._waiting = signal
        partition = number_of(signal.key[1])
        if partition in self._restored:
            self._install()
            return
        behind = takewhile(lambda item: isinstance(item, Assigned), self.stage.in_.items)
        names = {number_of(each.key[1]): each.key[1] for each in reversed([signal, *behind])}
        wanted = [name for number, name in names.items() if self._is_new(number)]
        self._reading.update(map(number_of, wanted))
        if wanted:
            assert self._changelog is not None
            self._changelog.restore(wanted)

    def _is_new(self, number: int) -> bool:
        return number not in self._reading and number not in self._restored and number not in self.stage.tasks.tasks

    def _on_restored(self, tasks: dict[int, WindowTask]) -> None:
        self._reading -= tasks.keys()
        self._restored.update(tasks)
        if self._waiting is not None and number_of(self._waiting.key[1]) in self._restored:
            self._install()
        self.stage.drain()

    def _install(self) -> None:
        signal, self._waiting = self._waiting, None
        assert signal is not None
        number = number_of(signal.key[1])
        self.stage.tasks.install(number, self._restored.pop(number))
        self.stage.put_mark(signal)

    def close(self, error: BaseException | None) -> None:
        """The stage has stopped."""
        if self._changelog is not None:
            self._changelog.close(error, self.finished)
