"""Changelogs as windows see them: protocols between the windowed stages of a run and the sources that keep their state.

A source whose positions are committed offers changelogs when the run is built (`Provider`); a windowed stage that its marks reach opens
one (`Changelog`). So windows know no Kafka.

Owner: the run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streamactors.engine.island.run import Run
from streamactors.engine.marks.cut_state import CutPart
from streamactors.engine.marks.marks import Key, Position, PositionMark
from streamactors.windows.state.store_log import Change

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic
    from streamactors.windows.stage.window_logic import WindowLogic
    from streamactors.windows.topology.task_factory import TaskFactory
    from streamactors.windows.topology.window_task import WindowTask


class StateKeeper(CutPart, Protocol):
    """A windowed stage as its changelog sees it: a part of the cut, whose state is restored. Any thread."""

    @property
    def gives_nothing_more(self) -> bool:
        """True when its input has ended, and the last mark has passed after the last results."""

    @property
    def stage(self) -> Logic:
        """The stage."""

    @property
    def carried(self) -> frozenset[Any]:
        """The sources whose marks reach the stage."""

    @property
    def provider(self) -> Provider | None:
        """The source that keeps the changelog; known when the run is built."""

    @property
    def tasks(self) -> Mapping[Any, WindowTask]:
        """The tasks of the partitions that are assigned now."""

    def topics(self, application: str) -> Mapping[str, str]:
        """The changelog topics of the stage, by store."""

    @property
    def max_task_idle_ms(self) -> int | None:
        """How long the tasks wait for an input without rows; None: they do not wait."""

    @property
    def orders_topics(self) -> bool:
        """True if the tasks take rows of several topics in the order of timestamps, which is not the order of arrival."""

    def dropped_before(self, target: PositionMark) -> bool:
        """True if the stream was stopped while the stage held rows before `target`, which the next run reads; once the stage has ended."""

    def restored(self, tasks: dict[Any, WindowTask]) -> None:
        """The tasks of partitions, with their state."""

    def handed_over(self) -> None:
        """The last entries are handed over to the open transaction; the stage need not wait for its commit."""


class StandbyCopy(NamedTuple):
    """A copy of a task of another instance. `lag`: number of changelog entries that the copy still lacks, those of its slowest store."""

    task: WindowTask
    partition: int
    lag: int


class MarksPass(enum.Enum):
    """When position marks pass a stage that keeps a changelog."""

    EVERY = "at once, every mark; it counts as done when the entries of a later stop are written"
    STOPS = "at once, the marks of stops only: the stages downstream stop at the same marks"
    WRITTEN = "the marks of stops only, when the entries are written"


class Changelog(Protocol):
    """The changelog of one stage in one run. Called on the stage's island, never waits; answers go to the stage's StateKeeper."""

    marks_pass: MarksPass

    def restore(self, partitions: Sequence[Any]) -> None:
        """Read the entries of these partitions (as marks name them); then `restored` or `failed`."""

    def write(self, changes: Sequence[tuple[Any, list[Change]]], at: PositionMark, ended: bool) -> None:
        """Write the entries of each partition as of the mark `at`; then `committed` or `failed`. `ended`: they are the last ones."""

    def may_give(self, inputs: Mapping[Key, int], *, last: bool) -> bool:
        """Ask before results are emitted that stem from no row of these inputs (with the epochs of their assignments). False if the next owner of an
        input must emit them. `last`: they are the results of the end of the input. After True, and before the next call, the stage calls
        `gave_nothing` if there were no results."""

    def gave_nothing(self) -> None:
        """There were no results after the last `may_give`."""

    def hurry(self) -> None:
        """Have the next cut come at once: what changed since the last one fills the memory."""

    def read_copies(self, read: Callable[[Sequence[StandbyCopy] | None], None]) -> None:
        """Call `read` with the standby copies, None if this instance keeps none; on the thread that follows them."""

    def revoked(self, partition: Any) -> None:
        """A partition was revoked: its state on disk may be closed."""

    def close(self, error: BaseException | None, finished: bool) -> None:
        """The stage has stopped; `finished`: everything was written."""


ReportPlaces = Callable[[PositionMark], None]
"""Called with the position up to which each of some inputs was taken."""


class Provider(Protocol):
    """A source that keeps changelogs for the stages downstream."""

    application: str
    """The application that the state belongs to; its name begins the names of the topics."""

    several_topics: bool
    """Whether a task may have several inputs."""

    bounded: bool
    """Whether the source ends where its partitions end; a partition that has reached its end is not waited for."""

    def read_in_order(self, reader: WindowLogic) -> None:
        """Have `reader` called when partitions are about to be revoked."""

    def forget(self, reader: WindowLogic) -> None:
        """A reader has ended: it holds nothing back, and is not called again."""

    def give_back(self, partition: Any, place: Position) -> None:
        """Rows delivered from this position of a partition on were dropped: they are not in flight, and are read again."""

    def hold_back(self, reader: WindowLogic, partitions: frozenset[Any]) -> None:
        """Pause delivery from these partitions and resume all others. Partitions that several readers name stay paused for all of them."""

    def open(self, keeper: StateKeeper, topics: Mapping[str, str], tasks: TaskFactory) -> Changelog:
        """Return the changelog of a stage; `topics` by store. Raises BuildError if another stage of the run has the same topics."""


class RunChangelogs:
    """The providers of a run and the stages that keep a changelog. Filled while the run is built."""

    def __init__(self) -> None:
        self._providers: dict[Any, Provider] = {}
        self.keepers: list[StateKeeper] = []

    def offer(self, source: Any, provider: Provider) -> None:
        """A source offers changelogs."""
        self._providers[source] = provider

    def providers_of(self, carried: Iterable[Any]) -> dict[Any, Provider]:
        """Return the providers among these sources."""
        return {source: self._providers[source] for source in carried if source in self._providers}

    def provider_of(self, carried: Iterable[Any]) -> Provider | None:
        """Return the provider for a stage that the marks of these sources reach; None if none of them is one."""
        return next((self._providers[source] for source in carried if source in self._providers), None)


def changelogs_of(run: Run) -> RunChangelogs:
    """Return the changelogs of a run."""
    return run.shared(RunChangelogs, RunChangelogs)
