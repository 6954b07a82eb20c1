"""The changelogs that a consumer source offers to the windows of its run, and what such windows ask of the source.

Windows that take rows of several topics in the order of timestamps hold rows back. They have the source pause partitions that are far
ahead, and give held rows back when a partition is revoked.

Owner: the source. Its methods may be called from any thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.island.closings import Closings, closings_of
from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import Key, Position, PositionMark
from streamactors.errors import BuildError, StreamActorsError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.changelogs.changelog import ChangelogAtLeastOnce, ChangelogInTransaction
from streamactors.kafka.state.changelogs.stored_tasks import KeptState
from streamactors.kafka.state.changelogs.sub_topology_states import SubTopologyStates
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition
from streamactors.kafka.transactions.run_transaction import transaction_of
from streamactors.state import State
from streamactors.windows.state.changelogs import Changelog, StateKeeper, changelogs_of
from streamactors.windows.state.disk.errors import StateError
from streamactors.windows.state.disk.folder import StateFolder

if TYPE_CHECKING:
    from streamactors.kafka.sources.source_logic import ConsumerSourceLogic
    from streamactors.windows.stage.window_logic import WindowLogic
    from streamactors.windows.topology.task_factory import TaskFactory

_ASSIGNOR: Final = "partition.assignment.strategy"
_BROKERS_ASSIGNOR: Final = "group.remote.assignor"


class StateFolders:
    """The state folders of a run, one per application: opens each folder once and closes it when the last stage has left it. Any thread."""

    def __init__(self, closings: Closings | None = None) -> None:
        """`closings`: counts the folders that are open."""
        self._closings = closings or Closings()
        self._open: dict[tuple[State, str], tuple[StateFolder, int]] = {}
        self._lock = threading.Lock()

    def enter(self, state: State, application: str) -> StateFolder | None:
        """Return the folder of an application; None if its state is in memory. Raises StateError."""
        if state.path is None:
            return None
        with self._lock:
            folder, users = self._open.get((state, application), (None, 0))
            if folder is None:
                folder = StateFolder(state, application)
                self._closings.opened()
            self._open[state, application] = folder, users + 1
            return folder

    def leave(self, folder: StateFolder) -> None:
        """A stage has stopped. Raises StateError if the folder cannot be closed cleanly."""
        is_last = False
        try:
            with self._lock:
                key, users = next((key, users) for key, (each, users) in self._open.items() if each is folder)
                if users > 1:
                    self._open[key] = folder, users - 1
                    return
                is_last = True
                del self._open[key]
                folder.close()  # under the lock: who enters the application again waits until its folder is closed
        finally:
            if is_last:
                self._closings.closed()


def _state_folders_of(run: Run) -> StateFolders:
    """Return the state folders of a run."""
    return run.shared(StateFolders, lambda: StateFolders(closings_of(run)))


class Leaving:
    """Partitions that are about to be revoked, while several stages hold rows of them.

    Each stage reports how far it has taken them, and processes nothing more but to meet the others. In a transaction (`meet`) all stages go
    on to where the furthest stands; the records after that position are not in flight. Without a transaction the stages do not meet:
    the next owner reads again from where the last one stands. `give_back(partition, place)` is called when all `readers` have reported; if
    one never reports, because it has not started, nothing is given back."""

    def __init__(self, readers: int, give_back: Callable[[Any, Position], None], *, meet: bool) -> None:
        self._missing = readers
        self._give_back = give_back
        self._choose: Callable[[Position, Position], Position] = max if meet else min
        self._stands: dict[Key, Position] = {}
        self._lock = threading.Lock()

    def stands(self, stands: PositionMark) -> None:
        """A stage has taken everything before these positions, and stops; any thread."""
        with self._lock:
            for key, place in stands.items():
                self._stands[key] = self._choose(self._stands.get(key, place), place)
            self._missing -= 1
            if self._missing:
                return
        for (_, partition), place in self._stands.items():
            self._give_back(partition, place)


class ChangelogProvider:
    """Gives the windows downstream of a source their changelogs. `application`: the consumer group of the run; rows that come from a repartition topic have no group of their own."""

    def __init__(
        self,
        settings: ConsumerSettings,
        run: Run,
        application: str,
        *,
        subscription: Subscription,
        bounded: bool,
        counts_done: bool = False,
        commits_done: bool = False,
        source: ConsumerSourceLogic,
    ) -> None:
        self.application = application
        self.subscription = subscription
        self.commits_done = (
            commits_done  # the run commits the source's positions, when they are done or in a transaction
        )
        self.several_topics = subscription.several_topics
        self.bounded = bounded
        self._by_group = isinstance(subscription, AutoSubscription)
        self._counts_done = counts_done  # positions are committed when every sink of the run has done them
        self.settings = settings
        self._run = weakref.ref(run)  # a weak reference: a run that is over must be freed
        self._source = weakref.ref(source)
        self._keepers: dict[str, StateKeeper] = {}  # topic -> the stage that writes it
        self._held_back: weakref.WeakKeyDictionary[WindowLogic, frozenset[TopicPartition]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    # ── stages that hold rows ─────────────────────────────────────────────────────────────────────────────────────

    def read_in_order(self, reader: WindowLogic) -> None:
        """Have `reader` called when partitions are about to be revoked."""
        with self._lock:
            self._held_back.setdefault(reader, frozenset())

    def forget(self, reader: WindowLogic) -> None:
        """A reader has ended: it no longer holds partitions back, and is not called again."""
        with self._lock:
            if self._held_back.pop(reader, None):
                self._tell_what_is_held_back()

    def revoking(self, keys: Sequence[Key]) -> None:
        """Partitions are about to be revoked."""
        with self._lock:
            readers = list(self._held_back)
        run = self._run()
        in_transaction = run is not None and transaction_of(run).commits_any(frozenset(source for source, _ in keys))
        leaving = Leaving(len(readers), self.give_back, meet=in_transaction)
        for reader in readers:
            reader.revoking(keys, None if len(readers) == 1 else leaving.stands)

    def give_back(self, partition: TopicPartition, place: Position) -> None:
        """Rows delivered from this position of a partition on were dropped."""
        source = self._source()
        if source is not None:
            source.give_back(partition, place)

    def hold_back(self, reader: WindowLogic, partitions: frozenset[TopicPartition]) -> None:
        """Pause delivery from the partitions that any reader names, and resume all others."""
        with self._lock:
            self._held_back[reader] = partitions
            self._tell_what_is_held_back()

    def _tell_what_is_held_back(self) -> None:
        source = self._source()
        if source is not None:
            source.hold_back(frozenset().union(*self._held_back.values()))

    # ── stages that keep state ────────────────────────────────────────────────────────────────────────────────────

    def open(self, keeper: StateKeeper, topics: Mapping[str, str], tasks: TaskFactory) -> Changelog:
        """Return the changelog of a stage. Raises BuildError if another stage of the run has a store of the same name, or if the partitions
        of one task may go to different members of the group."""
        run = self._run()
        assert run is not None
        transaction = transaction_of(run)
        in_transaction = transaction.commits_any(keeper.carried)
        folders = _state_folders_of(run)
        folder: StateFolder | None = None
        error: StreamActorsError | None = self._mistake(keeper, topics)
        if error is None:
            try:
                folder = folders.enter(self.settings.state, self.application)
            except StateError as refusal:
                error = refusal
        if error is not None:
            if in_transaction:
                transaction.start(lambda _: None)
                transaction.leave(keeper, error)
            raise error
        kept = KeptState(self.settings, self.application, topics, tasks, folder, self._topics_of_run)
        state = SubTopologyStates(kept)

        def leave() -> None:
            if folder is not None:
                folders.leave(folder)

        if in_transaction:
            return ChangelogInTransaction(self.application, keeper, topics, state, leave, transaction)
        source = self._source()
        if source is not None:
            source.keep_until_run_ends()
        progress = run.progress if self._counts_done else None
        return ChangelogAtLeastOnce(self.settings, self.application, keeper, topics, state, leave, progress)

    def _topics_of_run(self) -> list[str]:
        run = self._run()
        keepers = [] if run is None else changelogs_of(run).keepers
        return [topic for keeper in keepers for topic in keeper.topics(self.application).values()]

    def _mistake(self, keeper: StateKeeper, topics: Mapping[str, str]) -> BuildError | None:
        for store, topic in topics.items():
            if self._keepers.setdefault(topic, keeper) is not keeper:
                return BuildError(
                    f"two windowed computations of {self.application} keep a store named {store!r}, in one changelog; "
                    "name their steps: count(name='…'), Suppressed.….with_name('…')"
                )
        by_broker = self.settings.group_protocol == "consumer"
        setting = _BROKERS_ASSIGNOR if by_broker else _ASSIGNOR
        assignor = str(self.settings.client_properties().get(setting, "range")).split(",")[0].strip()
        if self.several_topics and self._by_group and assignor != "range":
            return BuildError(
                f"{setting} is {assignor!r} and {self.application} reads several topics in windows: partitions of one number "
                "would go to different members, and one key's rows to different states; use 'range', which keeps them together"
            )
        return None
