"""Changelogs in Kafka: the state of windows, kept in compacted topics beside the positions it stems from.

Owner: the windowed stage's keeper; reading has a thread of its own, writing is done on the producer's. Two ways, by what the
run has:

* a transactional sink: entries go into the run's transaction, with the results and the positions. Before a partition is
  restored the producer has fenced whoever used its transactional id before.
* none: a producer of its own. Entries wait until the sinks have done the results before them, for a crash would lose what the
  state has closed and nobody has got; positions wait for the entries. So a crash repeats rows (at least once)."""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.engine.marks import Key, Position, PositionMark
from streamactors.engine.progress import Progress
from streamactors.engine.run import Run
from streamactors.errors import BuildError
from streamactors.kafka.changelog_topics import ChangelogTopics
from streamactors.kafka.client_producer import StreamProducer, not_delivered
from streamactors.kafka.deliveries import Slot
from streamactors.kafka.leaving import Leaving
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition
from streamactors.kafka.transaction import NOWHERE, RunTransaction, logics_behind, transaction_of
from streamactors.windows.changelog import Change, TaskIdentity
from streamactors.windows.changelogs import Changelog, InOrder, MakeTask
from streamactors.windows.keeper import Keeper

_log = logging.getLogger("streamactors.kafka")


_ASSIGNOR: Final = "partition.assignment.strategy"
DONE_CHECK_MS: Final = 5.0


class OrderedSource(Protocol):
    """A source whose partitions are read in an order of the reader's."""

    def give_back(self, partition: TopicPartition, place: Position) -> None:
        """What was delivered from this position on is not in flight; any thread."""

    def hold_back(self, partitions: frozenset[TopicPartition]) -> None:
        """Deliver nothing of these for now; any thread."""


class KafkaChangelogs:
    """What a consumer source offers to the windows of its run. The application is the consumer group, of which a topic in between
    (repartitioned rows) has none of its own."""

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
        source: OrderedSource,
    ) -> None:
        self.application = application
        self.subscription = subscription
        self.commits_done = commits_done  # its run commits its positions, when they are done or in a transaction
        self.several_topics = subscription.several_topics
        self._by_group = isinstance(subscription, AutoSubscription)
        self.bounded = bounded
        self.counts_done = counts_done  # its positions are committed when every sink of the run has done them
        self._settings = settings
        self._run = weakref.ref(run)
        self._stages: dict[str, Keeper] = {}  # topic -> who writes it
        self._source = weakref.ref(source)  # a run that is over must not live on in what it offered
        self._held_back: weakref.WeakKeyDictionary[InOrder, frozenset[TopicPartition]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def read_in_order(self, reader: InOrder) -> None:
        """`reader` is told when partitions are about to be taken away; any thread."""
        with self._lock:
            self._held_back.setdefault(reader, frozenset())

    def revoking(self, keys: Sequence[Key]) -> None:
        """Partitions are about to be taken away; any thread."""
        with self._lock:
            readers = list(self._held_back)
        run = self._run()
        in_transaction = run is not None and transaction_of(run).commits_any(frozenset(source for source, _ in keys))
        leaving = Leaving(len(readers), self.give_back, meet=in_transaction)
        for reader in readers:
            reader.revoking(keys, None if len(readers) == 1 else leaving.stands)

    def give_back(self, partition: TopicPartition, place: Position) -> None:
        """What was delivered from this position on was dropped; any thread."""
        source = self._source()
        if source is not None:
            source.give_back(partition, place)

    def hold_back(self, reader: InOrder, partitions: frozenset[TopicPartition]) -> None:
        """Give nothing more of what any reader wants held back; any thread."""
        with self._lock:
            self._held_back[reader] = partitions
            source = self._source()
            if source is not None:
                source.hold_back(frozenset().union(*self._held_back.values()))

    def open(self, keeper: Keeper, topics: Mapping[str, str], make_task: MakeTask) -> Changelog:
        """The changelog of a stage. Raises BuildError if another stage of the run has a store of the same name, or if a task's
        partitions may go to different members of the group."""
        run = self._run()
        assert run is not None
        transaction = transaction_of(run)
        in_transaction = transaction.commits_any(keeper.carried)
        error = self._mistake(keeper, topics)
        if error is not None:
            if in_transaction:
                transaction.start(lambda _: None)
                transaction.leave(keeper, error)
            raise error
        if in_transaction:
            return _InTransaction(self, keeper, topics, make_task, transaction)
        return _AtLeastOnce(self, keeper, topics, make_task)

    def _mistake(self, keeper: Keeper, topics: Mapping[str, str]) -> BuildError | None:
        for store, topic in topics.items():
            if self._stages.setdefault(topic, keeper) is not keeper:
                return BuildError(
                    f"two windowed computations of {self.application} keep a store named {store!r}, in one changelog; "
                    "name their steps: count(name='…'), Suppressed.….with_name('…')"
                )
        assignor = str(self._settings.client_properties().get(_ASSIGNOR, "range")).split(",")[0].strip()
        if self.several_topics and self._by_group and assignor != "range":
            return BuildError(
                f"{_ASSIGNOR} is {assignor!r} and {self.application} reads several topics in windows: partitions of one number "
                "would go to different members, and one key's rows to different states; use 'range', which keeps them together"
            )
        return None

    @property
    def progress(self) -> Progress:
        """Of the run."""
        run = self._run()
        assert run is not None
        return run.progress

    @property
    def settings(self) -> ConsumerSettings:
        """How the input is read."""
        return self._settings


class _KafkaChangelog:
    """What both ways share: restoring, and turning entries into records."""

    in_transaction = False

    def __init__(
        self, changelogs: KafkaChangelogs, keeper: Keeper, topics: Mapping[str, str], make_task: MakeTask
    ) -> None:
        self._application = changelogs.application
        self._keeper = keeper
        self._topics = topics
        self._make_task = make_task
        self._reader = ChangelogTopics(changelogs.settings, topics)
        self._thread = Dispatcher(f"changelog of {self._application}")

    def restore(self, partitions: Sequence[Any]) -> None:
        """Read the entries of these topic partitions and make their tasks."""
        self._execute(lambda: self._restore(partitions))

    def _execute(self, fn: Callable[[], None]) -> None:
        try:
            self._thread.execute(fn)
        except DispatcherStopped:
            pass  # the stage has ended

    def _stop_reading(self) -> None:
        self._reader.cancel()
        self._thread.stop(timeout=0)

    def _restore(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            count, found = self._reader.read(partitions)
            tasks = {
                number: self._make_task(TaskIdentity(self._application, number, count), changes)
                for number, changes in found.items()
            }
        except Exception as error:  # noqa: BLE001  # the stage hears of it
            self._keeper.failed(error)
        else:
            entries = sum(map(len, found.values()))
            if entries:
                _log.info("%s: restored %d entries of partitions %s", self._application, entries, sorted(found))
            self._keeper.restored(tasks)

    def _records(self, changes: Sequence[tuple[int, list[Change]]]) -> list[ProducerRecord]:
        topics = self._topics
        return [
            ProducerRecord(topics[store], value, key, partition)
            for partition, entries in changes
            for store, key, value in entries
        ]


class _InTransaction(_KafkaChangelog):
    """Entries in the run's transaction."""

    in_transaction = True
    marks_first = True

    def __init__(
        self,
        changelogs: KafkaChangelogs,
        keeper: Keeper,
        topics: Mapping[str, str],
        make_task: MakeTask,
        transaction: RunTransaction,
    ) -> None:
        super().__init__(changelogs, keeper, topics, make_task)
        self._transaction = transaction
        self._ready = False
        self._early: list[Sequence[Any]] = []
        try:
            self._producer = transaction.start(lambda error: self._execute(lambda: self._on_started(error)))
        except BuildError:
            self._stop_reading()
            raise
        if not transaction.takes_part(keeper):
            self._stop_reading()
            error = BuildError(
                "windows with a changelog stand in a graph that is begun inside its run (RestartSource), and their transactional sink "
                "outside; run and restart the whole graph, sink included"
            )
            transaction.leave(keeper, error)
            raise error

    def _on_started(self, error: BaseException | None) -> None:
        if error is not None:
            self._keeper.failed(error)
            return
        self._ready = True
        for partitions in self._early:
            self._restore(partitions)

    def _restore(self, partitions: Sequence[TopicPartition]) -> None:
        if self._ready:
            super()._restore(partitions)
        else:  # the former owner is not fenced yet: what it still writes would be missed
            self._early.append(partitions)

    def write(self, changes: Sequence[tuple[int, list[Change]]], at: PositionMark, ended: bool) -> None:
        records = self._records(changes)

        def send() -> None:
            self._transaction.write(records)
            if ended:
                self._keeper.written()
            self._transaction.on_reached(self._keeper, at, ended=ended)

        self._producer.call(self._transaction.guarded, send)

    def close(self, error: BaseException | None, finished: bool) -> None:
        self._stop_reading()
        self._transaction.leave(self._keeper, error, finished=finished)


class _AtLeastOnce(_KafkaChangelog):
    """Entries between the results, which are done before, and the positions, which are done after them."""

    def __init__(
        self, changelogs: KafkaChangelogs, keeper: Keeper, topics: Mapping[str, str], make_task: MakeTask
    ) -> None:
        super().__init__(changelogs, keeper, topics, make_task)
        consumer = changelogs.settings
        self.marks_first = changelogs.counts_done
        self._progress = changelogs.progress
        self._behind = logics_behind(keeper.stage)
        if self.marks_first:
            self._progress.add_sink(
                keeper.stage, keeper.carried
            )  # a position is done when its entries are written, too
        self._interval_ms = consumer.commit_interval_ms
        self._patience_s = consumer.revoke_timeout_ms / 1_000  # at the end, where a reader may never ask again
        self._producer = StreamProducer(producer_beside(consumer))
        self._producer.start().add_done_callback(lambda future: self._on_started(future.exception()))

    def _on_started(self, error: BaseException | None) -> None:
        if error is not None:
            self._keeper.failed(error)
        else:
            self._arm()

    def _arm(self) -> None:
        self._producer.later(self._interval_ms, lambda: self._keeper.cut({}))

    def write(self, changes: Sequence[tuple[int, list[Change]]], at: PositionMark, ended: bool) -> None:
        tasks = self._keeper.stage.tasks.tasks
        until = time.monotonic() + (self._patience_s if ended else math.inf)

        def write_when_done() -> None:
            if self.marks_first and time.monotonic() < until and self._is_awaited(at):
                self._producer.later(DONE_CHECK_MS, write_when_done)
                return
            # a partition was taken away meanwhile -> its next owner has read its state, and reads the rows of this cut again
            ours = self._keeper.stage.tasks.tasks
            kept = [(number, entries) for number, entries in changes if ours.get(number) is tasks[number]]
            self._write(self._records(kept), at, ended)

        at = at.copy()
        self._producer.call(write_when_done)

    def _is_awaited(self, at: PositionMark) -> bool:
        """True while a sink behind the windows has not done everything before `at`. One that is done with its end only, as
        a fold, has no results to lose before."""
        for sink, (done, _) in self._progress.waiting_for().items():
            if sink in self._behind and not getattr(sink, "done_at_end", False):
                carried = self._progress.sources_of(sink)
                if any(done.get(key, NOWHERE) < place for key, place in at.items() if key[0] in carried):
                    return True
        return False

    def _write(self, records: list[ProducerRecord], at: PositionMark, ended: bool) -> None:
        slot: Slot = {}
        try:
            self._producer.send_all(records, slot.setdefault)
            self._producer.flush()
            lost = next((error for error in slot if error is not None), None)
            if lost is not None:
                raise not_delivered(records[0], lost)
        except Exception as error:  # noqa: BLE001  # the stage hears of it
            self._keeper.failed(error)
            return
        if self.marks_first:
            self._progress.done(self._keeper.stage, at)
        self._keeper.committed()
        if not ended:
            self._arm()

    def close(self, error: BaseException | None, finished: bool) -> None:
        self._stop_reading()
        if finished and self.marks_first:
            self._progress.sink_ended(self._keeper.stage)
        self._producer.close(drop=True)


def producer_beside(consumer: ConsumerSettings) -> ProducerSettings:
    """Settings of a producer at the broker that a consumer reads from."""
    return ProducerSettings(consumer.bootstrap_servers, properties=consumer.security())
