"""Keeper: a windowed stage as its changelog and the run's transaction see it.

Their calls come from any thread; each becomes an event of the stage's state machine, on its island. `stops.py` has the rules.

Owner: the windowed stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.engine.marks.marks import NOWHERE, PositionMark
from streamactors.windows.stage.stage_events import Committed, Cut, Event, HandedOver, Restored
from streamactors.windows.stage.stops import Stops
from streamactors.windows.state.changelogs import Changelog, Provider, StandbyCopy, changelogs_of
from streamactors.windows.topology.window_task import WindowTask

if TYPE_CHECKING:
    from streamactors.windows.stage.window_logic import WindowLogic


class Keeper:
    """The part of a run's cuts that a windowed stage is. `carried`: the sources whose marks reach the stage."""

    def __init__(self, stage: WindowLogic, stops: Stops) -> None:
        self.stage = stage
        self.part_state = stops.part_state
        self.restored_tasks: dict[Any, WindowTask] = {}
        """The tasks whose states were read, until their assignment has come."""
        self._stops = stops
        self._changelog: Changelog | None = None
        self._step = stage.async_callback(stage.step)

    @property
    def carried(self) -> frozenset[Any]:
        return self.part_state.carried

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
        return self.stage.state.turns.max_task_idle_ms

    @property
    def tasks(self) -> Mapping[Any, WindowTask]:
        """The tasks of the partitions that are assigned now."""
        return self.stage.tasks.tasks

    @property
    def orders_topics(self) -> bool:
        """True if the tasks take rows of several topics in the order of timestamps, which is not the order of arrival."""
        several = self.provider is not None and self.provider.several_topics
        return several and not self.part_state.follows and self.max_task_idle_ms is not None

    @property
    def gives_nothing_more(self) -> bool:
        """True when the input has ended, and the last mark has passed after the last results; any thread."""
        return self._stops.gives_nothing_more

    def open(self, provider: Provider) -> Changelog:
        """Open the changelog, when the stage starts. Raises BuildError."""
        self._changelog = provider.open(self, self.topics(provider.application), self.stage.tasks.factory)
        return self._changelog

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────────────

    def cut(self, target: PositionMark) -> None:
        """Stop at the next mark that is not before `target`: write the entries that changed up to it."""
        self._post(Cut(target))

    def committed(self) -> None:
        """The entries written last are committed."""
        self._post(Committed())

    def handed_over(self) -> None:
        """The last entries are part of the open transaction; the stage need not wait for its commit."""
        self._post(HandedOver())

    def restored(self, tasks: dict[Any, WindowTask]) -> None:
        """The tasks of partitions, with their state."""

        def take(_: None) -> None:
            self.restored_tasks.update(tasks)
            self.stage.step(Restored(frozenset(tasks)))

        self.stage.async_callback(take).invoke(None)

    def failed(self, error: BaseException) -> None:
        """The state cannot be kept or restored."""
        self.stage.async_callback(self.stage.fail_stage).invoke(error)

    def _post(self, event: Event) -> None:
        self._step.invoke(event)

    # ── any thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def sinks_behind(self) -> set[object]:
        """Return the sinks that see a mark only when it is committed: none, for marks pass before."""
        return set()

    def dropped_before(self, target: PositionMark) -> bool:
        """True if the stream was stopped while the stage held rows before `target`, which the next run reads; once the stage has ended."""
        dropped = self.stage.state.turns.dropped_from
        return any(place < target.get(key, NOWHERE) for key, place in dropped.items())

    def read_copies(self, read: Callable[[Sequence[StandbyCopy] | None], None]) -> None:
        """Call `read` with the standby copies of other instances' tasks, None if there are none."""
        if self._changelog is None:
            read(None)
        else:
            self._changelog.read_copies(read)

    def close(self, error: BaseException | None) -> None:
        """The stage has stopped."""
        if self._changelog is not None:
            self._changelog.close(error, self._stops.finished)
