"""Changelogs in Kafka: the state of windows, kept in compacted topics beside the positions it stems from.

Reading has a thread of its own; writing is done on the producer's thread. There are two ways to write:

* The run has a transactional sink: entries go into the run's transaction, with the results and the positions. The producer fences the
  former owner of its transactional id before a partition is restored.
* It has none: the changelog has a producer of its own. Entries wait until the sinks have done the results before them; a crash must not
  leave a state that has closed a window whose result no sink has. Positions wait for the entries. So a crash repeats rows (at least
  once), and loses none.

Owner: the windowed stage's keeper."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.engine.boundary import logics_behind
from streamactors.engine.marks.marks import Key, PositionMark
from streamactors.engine.marks.progress import SinkProgress
from streamactors.errors import BuildError
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.producer_record import ProducerRecord, new_record
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.state.changelogs.standby import STEP_MS
from streamactors.kafka.state.changelogs.sub_topology_states import CutOfStage, SubTopologyStates
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.kafka.transactions.offsets import Debt
from streamactors.kafka.transactions.run_transaction import RunTransaction
from streamactors.kafka.writing.deliveries import Slot
from streamactors.windows.operators.task_ids import partition_of
from streamactors.windows.state.changelogs import MarksPass, StandbyCopy, StateKeeper
from streamactors.windows.state.store_log import Change

_log = logging.getLogger("streamactors.kafka")


class _KafkaChangelog:
    """Common to both ways: restoring, and turning entries into records."""

    def __init__(
        self,
        application: str,
        keeper: StateKeeper,
        topics: Mapping[str, str],
        state: SubTopologyStates,
        leave: Callable[[], None],
    ) -> None:
        """`leave`: called on the reading thread when the stage has stopped and its state is closed."""
        self._application = application
        self._keeper = keeper
        self._topics = topics
        self._state = state
        self._leave = leave
        self._thread = Dispatcher(f"changelog of {self._application}")
        if state.has_standbys:
            self._execute(self._follow)

    def _follow(self) -> None:
        """Bring the copies of other instances' tasks up to date, and schedule the next pass."""
        try:
            self._state.follow()
            self._thread.call_later(STEP_MS, self._follow)
        except DispatcherStopped:
            pass  # the stage has ended
        except Exception as error:  # noqa: BLE001  # the stage hears of it
            self._keeper.failed(error)

    def restore(self, partitions: Sequence[Any]) -> None:
        """Read the entries of these topic partitions and make their tasks."""
        self._execute(lambda: self._restore(partitions))

    def may_give(self, inputs: Mapping[Key, int], *, last: bool) -> bool:
        """Without a transaction the next owner of a partition may emit the same results again: at least once."""
        return True

    def gave_nothing(self) -> None:
        """Nothing was noted."""

    def _execute(self, fn: Callable[[], None]) -> None:
        try:
            self._thread.execute(fn)
        except DispatcherStopped:
            pass  # the stage has ended

    def read_copies(self, read: Callable[[Sequence[StandbyCopy] | None], None]) -> None:
        """Call `read` with the standby copies, None if this instance keeps none."""
        self._execute(lambda: read(self._state.copies()))

    def revoked(self, partition: Any) -> None:
        """A partition was revoked."""
        if self._state.on_disk:
            self._execute(lambda: self._state.revoked(partition))

    def _write_to_disk(self, write: Callable[[], None]) -> None:
        """Entries are committed in the changelog: write them to disk, on the reading thread."""
        if not self._state.on_disk:
            return

        def guarded() -> None:
            try:
                write()
            except Exception as error:  # noqa: BLE001  # the stage hears of it
                self._keeper.failed(error)

        self._execute(guarded)

    def _stop_reading(self) -> None:
        self._state.cancel()
        self._execute(self._close_state)
        self._thread.stop(timeout=0)

    def _close_state(self) -> None:
        try:
            self._state.close()
        finally:
            self._leave()

    def _restore(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            tasks = self._state.restore(partitions)
        except Exception as error:  # noqa: BLE001  # the stage hears of it
            self._keeper.failed(error)
        else:
            self._keeper.restored(tasks)

    def _records(self, changes: Sequence[tuple[Any, list[Change]]]) -> list[ProducerRecord]:
        topics = self._topics
        records: list[ProducerRecord] = []
        for task, entries in changes:
            partition = partition_of(task)
            records += [new_record((topics[store], value, key, partition, None, None)) for store, key, value in entries]
        return records


class ChangelogInTransaction(_KafkaChangelog):
    """Entries in the run's transaction."""

    marks_pass = MarksPass.STOPS

    def __init__(
        self,
        application: str,
        keeper: StateKeeper,
        topics: Mapping[str, str],
        state: SubTopologyStates,
        leave: Callable[[], None],
        transaction: RunTransaction,
    ) -> None:
        super().__init__(application, keeper, topics, state, leave)
        self._transaction = transaction
        self._ready = False
        self._early: list[Sequence[Any]] = []
        self._cuts: list[CutOfStage] = []
        """The cuts of the open transaction: two where the parts of the run first stopped at different marks."""
        self._given: list[list[Debt]] = []  # for each `may_give` since the last cut what is owed
        self._owed: list[list[Debt]] = []  # the same, of the open transaction
        try:
            transaction.start(lambda error: self._execute(lambda: self._on_started(error)))
        except BuildError:
            self._stop_reading()
            raise
        if not transaction.takes_part(keeper):
            self._stop_reading()
            error = BuildError(
                "windows with a changelog are inside a RestartSource, and their transactional sink is "
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

    def write(self, changes: Sequence[tuple[Any, list[Change]]], at: PositionMark, ended: bool) -> None:
        records = self._records(changes)

        numbers = [number for number, _ in changes]
        given, self._given = self._given, []

        def send() -> None:
            if not self._cuts:
                self._transaction.when_committed(self._on_committed)
            self._cuts.append(self._state.cut(records, numbers))
            self._owed += given
            self._transaction.write(records)
            if ended:
                self._keeper.handed_over()
            self._transaction.on_reached(self._keeper, at, ended=ended)

        self._transaction.post(send)

    def may_give(self, inputs: Mapping[Key, int], *, last: bool) -> bool:
        debts = self._transaction.offsets.owe(inputs, last=last)
        if debts is not None:
            self._given.append(debts)
        return debts is not None

    def gave_nothing(self) -> None:
        self._transaction.offsets.paid(self._given.pop())

    def _on_committed(self) -> None:
        owed, self._owed = self._owed, []
        for debts in owed:
            self._transaction.offsets.paid(debts)
        cuts, self._cuts = self._cuts, []
        self._write_to_disk(lambda: self._state.committed(cuts))

    def hurry(self) -> None:
        self._transaction.draining()

    def close(self, error: BaseException | None, finished: bool) -> None:
        if finished:  # the last cut may not be committed yet
            self._transaction.when_over(self._stop_reading)
        else:
            self._stop_reading()
        self._transaction.leave(self._keeper, error, finished=finished)


class ChangelogAtLeastOnce(_KafkaChangelog):
    """Entries are written after the results before them are done; the positions are done after the entries are written."""

    def __init__(
        self,
        settings: ConsumerSettings,
        application: str,
        keeper: StateKeeper,
        topics: Mapping[str, str],
        state: SubTopologyStates,
        leave: Callable[[], None],
        progress: SinkProgress | None,
    ) -> None:
        """`progress`: of a run whose positions are committed when every sink has done them; None: offsets are committed by hand."""
        super().__init__(application, keeper, topics, state, leave)
        self.marks_pass = MarksPass.WRITTEN if progress is None else MarksPass.EVERY
        self._progress = progress
        self._behind = logics_behind(keeper.stage)
        if progress is not None:
            progress.add_sink(keeper.stage, keeper.carried)  # a position is done when its entries are written, too
        self._interval_ms = settings.commit_interval_ms
        self._timer: Any = None
        self._producer = StreamProducer(producer_beside(settings))
        self._producer.start().add_done_callback(lambda future: self._on_started(future.exception()))

    def _on_started(self, error: BaseException | None) -> None:
        if error is not None:
            self._keeper.failed(error)
        else:
            self._arm()

    def _arm(self) -> None:
        self._timer = self._producer.later(self._interval_ms, lambda: self._keeper.cut({}))

    def hurry(self) -> None:
        def cut_now() -> None:
            if self._timer is not None and self._timer.cancel():  # else a cut is under way
                self._keeper.cut({})

        self._producer.call(cut_now)

    def write(self, changes: Sequence[tuple[Any, list[Change]]], at: PositionMark, ended: bool) -> None:
        tasks = self._keeper.tasks

        def write() -> None:
            # a partition was taken away meanwhile -> its next owner has read its state, and reads the rows of this cut again
            ours = self._keeper.tasks
            kept = [(number, entries) for number, entries in changes if ours.get(number) is tasks[number]]
            self._write(self._records(kept), [number for number, _ in kept], at, ended)

        if self._progress is None:
            self._producer.call(write)
            return
        self._progress.when_done(
            at,
            lambda: self._producer.call(write),
            among=self._may_lose_results,
            failed=self._keeper.failed,
        )

    def _may_lose_results(self, sink: object) -> bool:
        """True for a sink downstream of the windows, unless it is done only at its end, as a fold is: before that it has no results to lose."""
        return sink in self._behind and not getattr(sink, "done_at_end", False)

    def _write(self, records: list[ProducerRecord], numbers: list[Any], at: PositionMark, ended: bool) -> None:
        last = {TopicPartition(record.topic, record.partition or 0): record for record in records}
        slots: dict[TopicPartition | None, Slot] = {key: {} for key in (None, *last)}
        cut = self._state.cut(records, numbers)
        at_an_end = set(map(id, last.values()))
        try:
            self._producer.send_all((each for each in records if id(each) not in at_an_end), slots[None].setdefault)
            for key, record in last.items():  # the report of the last record of a partition tells its end
                self._producer.send_all([record], slots[key].setdefault)
            self._producer.flush()
            lost = next((error for slot in slots.values() for error in slot if error is not None), None)
            if lost is not None:
                raise self._producer.not_delivered(records[0], lost)
        except Exception as error:  # noqa: BLE001  # the stage hears of it
            if self._keeper.gives_nothing_more:  # the sinks have ended, and none can fail with it
                _log.error(
                    "%s; the stream has ended, and the next run reads the rows since the last commit again", error
                )
            self._keeper.failed(error)
            return
        ends = {key: slots[key][None].offset() + 1 for key in last}
        self._write_to_disk(lambda: self._state.acknowledged(cut, ends))
        if self._progress is not None:
            self._progress.done(self._keeper.stage, at)
        self._keeper.committed()
        if not ended:
            self._arm()

    def close(self, error: BaseException | None, finished: bool) -> None:
        self._stop_reading()
        if finished and self._progress is not None:
            self._progress.sink_ended(self._keeper.stage)
        self._producer.close(drop=True)


def producer_beside(consumer: ConsumerSettings) -> ProducerSettings:
    """Settings of a producer at the broker that a consumer reads from."""
    return ProducerSettings(consumer.bootstrap_servers, properties=consumer.security())
