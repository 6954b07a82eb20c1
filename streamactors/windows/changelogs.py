"""Where changelogs come from: what windows ask of the package that keeps them, and who of a run offers it to whom.

Owner: the run. A source whose positions are kept offers changelogs when the run is built; a windowed stage that its marks
reach takes them. Windows know no Kafka: they see a `Changelog` that restores tasks and takes entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from streamactors.engine.marks import Key, Position, PositionMark
from streamactors.windows.changelog import Change, TaskIdentity
from streamactors.windows.task import WindowTask

if TYPE_CHECKING:
    from streamactors.engine.run import Run
    from streamactors.windows.keeper import Keeper

MakeTask = Callable[[TaskIdentity, Iterable[Change]], WindowTask]
"""A task restored from its entries; may be called from any thread. Raises RestoreError."""


class Changelog(Protocol):
    """The changelog of one stage in one run. Called on the stage's island, never waits; answers go to the keeper."""

    in_transaction: bool
    """True: entries, results and positions are committed together."""

    marks_first: bool
    """True: a mark goes on before the entries as of it are committed, and does not count as done before they are."""

    def restore(self, partitions: Sequence[Any]) -> None:
        """Read what is kept of these partitions (as marks name them); then `keeper.restored` or `keeper.failed`."""

    def write(self, changes: Sequence[tuple[int, list[Change]]], at: PositionMark, ended: bool) -> None:
        """Write the entries of each partition as of the mark `at`; then `keeper.committed` or `keeper.failed`. With
        `ended` they are the last ones."""

    def close(self, error: BaseException | None, finished: bool) -> None:
        """The stage has stopped; `finished`: everything was written."""


TellStands = Callable[[PositionMark], None]
"""Hears how far each of some inputs has been taken."""


class InOrder(Protocol):
    """A stage that holds rows until it is their turn."""

    def revoking(self, keys: Sequence[Key], tell_stands: TellStands | None) -> None:
        """These inputs are about to be taken away; None: nobody else holds rows of them. Any thread."""


class Provider(Protocol):
    """A source that keeps changelogs for the stages behind it."""

    application: str
    """Whose state it is; begins the names of the topics."""

    several_topics: bool
    """Whether a task may have several inputs."""

    bounded: bool
    """Whether it ends where its partitions end: one that has reached its end is not waited for."""

    def read_in_order(self, reader: InOrder) -> None:
        """`reader` takes rows of several topics in order of time; it is told what is about to be taken away."""

    def give_back(self, partition: Any, place: Position) -> None:
        """What was given of a partition from this position on was dropped: it is not in flight."""

    def hold_back(self, reader: InOrder, partitions: frozenset[Any]) -> None:
        """Give nothing more of these partitions, and all others again; of several readers' partitions, of all of them."""

    def open(self, keeper: Keeper, topics: Mapping[str, str], make_task: MakeTask) -> Changelog:
        """The changelog of a stage; `topics` by store. Raises BuildError if the run has another stage with them."""


class RunChangelogs:
    """What the sources of a run offer and which stages want to keep something. Filled while the run is built."""

    def __init__(self) -> None:
        self._providers: dict[Any, Provider] = {}
        self.keepers: list[Keeper] = []

    def offer(self, source: Any, provider: Provider) -> None:
        """A source keeps changelogs."""
        self._providers[source] = provider

    def providers_of(self, carried: Iterable[Any]) -> dict[Any, Provider]:
        """The providers among these sources."""
        return {source: self._providers[source] for source in carried if source in self._providers}

    def provider_of(self, carried: Iterable[Any]) -> Provider | None:
        """Who keeps the changelog of a stage that the marks of these sources reach; None if nobody does."""
        return next((self._providers[source] for source in carried if source in self._providers), None)


def changelogs_of(run: Run) -> RunChangelogs:
    """The changelogs of a run."""
    return run.shared(RunChangelogs, RunChangelogs)
