"""When a consumer polls, on which thread, and for how long a poll waits. After each poll it delivers, pauses and resumes.

A consumer has a thread of its own, where a poll may wait for records. While every poll brings as many records as it may, there is nothing
to wait for. Then the consumer takes its turns on the pool, between those of the islands it feeds: a chunk changes no thread, and the next
chunk is made when this one is done.

A poll tick re-arms itself after each poll. Demand that finds nothing buffered polls at once. Requests that come in during a poll are served
together after it. Owner: the consumer actor."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.gauges import Gauge
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.runs import PollResult, made_at_ms
from streamactors.kafka.reading.assignment.rebalances import Rebalances
from streamactors.kafka.reading.at_rest import ConsumerRest
from streamactors.kafka.reading.bounded_read import BoundedRead
from streamactors.kafka.reading.commits import ConsumerCommits
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.kafka.reading.poll_trace import PollTrace

IDLE_EVERY_MS = 500.0
BUSY_POLL_MS = 5.0
"""How long a poll waits while other feeds have records waiting: their requests are served after it."""
FETCHED_BYTES = 52_428_800
"""librdkafka's fetch.max.bytes: what one poll may bring when the buffers are just below the size at which all partitions are paused."""
VIRTUAL_POLL_MS = 2.0
"""How long a poll waits under a virtual clock. The clock waits for a whole poll before each move, so this wait must be short."""


class Poll:
    """Message to the actor itself: poll now."""


class Tick:
    """Message to the actor itself: the poll interval has passed."""


_POLL, _TICK = Poll(), Tick()


def records_at_once(most: int, objects_each: int) -> int:
    """Return how many records one poll reads: few enough that their objects do not start a garbage collection.

    Records are in use when the collection comes, so it finds nothing; one collection per poll costs a fifth of a bare client's time."""
    threshold = gc.get_threshold()[0] if gc.isenabled() else 0
    return max(1, min(most, threshold * 19 // 20 // objects_each)) if threshold else most


class Polling:
    """Polls the consumer, and decides when and for how long. `cell()` returns the running actor, which can change its thread; `when_stopping` is called after a poll of a
    consumer that is about to close."""

    def __init__(
        self,
        context: ConsumerContext,
        at_once: int,
        rebalances: Rebalances,
        bounded: BoundedRead,
        commits: ConsumerCommits,
        cell: Callable[[], Any],
        when_stopping: Callable[[], None],
        rest: ConsumerRest | None = None,
    ) -> None:
        self._context = context
        self._at_once = at_once
        self._rebalances = rebalances
        self._bounded = bounded
        self._commits = commits
        self._cell = cell
        self._when_stopping = when_stopping
        self._rest = rest  # under a virtual clock
        self._trace: PollTrace | None = None
        if switch.installed is not None:
            from streamactors.kafka.reading.poll_trace import PollTrace

            self._trace = PollTrace(switch.installed, context.settings, context.state.partitions)
        self._later = context.call_later if rest is None else rest.call_later
        self._at_home = True  # polls on its own thread, and may wait
        self._tick: Any = None
        self._soon = False  # a Poll is on its way
        limits = context.settings
        most = limits.max_buffered_bytes + limits.max_buffered_bytes // 4 + FETCHED_BYTES
        self._gauge = Gauge(f"the consumer of group {limits.group_id}: bytes of its buffers", most, "bytes")

    def soon(self) -> None:
        """Poll as soon as what is in the mailbox has been served."""
        if not self._soon:
            self._soon = True
            self._context.tell(_POLL)

    def arm_tick(self, delay_ms: float) -> None:
        """Poll once more after a while."""
        self.cancel()
        self._tick = self._later(delay_ms, lambda: self._context.tell(_TICK))

    def cancel(self) -> None:
        """Forget the tick."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def on_tick(self, _: Tick) -> None:
        self._tick = None
        if (
            not self._soon
        ):  # a poll does not wait while a message is in the mailbox: with two Polls there, none would ever wait
            self.on_poll(_POLL)

    def on_poll(self, _: Poll) -> None:
        """Poll as long as a feed waits for records; messages to the actor are served in between."""
        self._soon = False
        context = self._context
        client = context.client
        if client is None:
            return
        if context.stopping:
            client.read(1, 0)
            self._when_stopping()
            return
        counts, mailbox = context.state.counts, self._cell().mailbox
        again = True
        while again:
            before = counts.records
            again = self._poll_once(client)
            moves = self._settle(counts.records - before)
            if again and (moves or mailbox or not self._at_home):
                self.soon()  # after what waits, on the pool also after the islands
                return
        if self._commits.in_flight:
            self.hear_commit()
        elif self._tick is None:
            self.arm_tick(context.settings.poll_interval_ms)

    def hear_commit(self) -> None:
        """A commit is in flight: poll for its answer."""
        if not self._soon:
            self.arm_tick(self._commits.poll_after_ms())

    def _settle(self, read: int) -> bool:
        """Choose where to poll next by what this poll has read: on the pool as long as there is a backlog. True: elsewhere."""
        cell = self._cell()
        # `max_in_flight` is looked at before each delivery: acknowledgements need the time that a hand-over takes
        if self._at_home and read == self._at_once and self._context.settings.max_in_flight is None:
            cell.move(cell.base.pool)
        elif not self._at_home and not read and self._context.state.starving:
            cell.move(cell.home)
        else:
            return False
        self._at_home = not self._at_home
        return True

    def _poll_once(self, client: StreamConsumer) -> bool:
        """Poll, deliver, pause and resume; return whether to poll again at once."""
        state = self._context.state
        starving, began_ms = state.starving, self._context.now_ms()
        if self._trace is not None:
            self._trace.begin()
        batch = self._read(client, starving)
        state.counts.polls += 1
        self._rebalances.membership.look_up()
        rebalances, polled_ms = self._rebalances, self._context.now_ms()
        for run in batch.runs:
            if rebalances.guard is None or rebalances.look(run):
                state.read(*run, polled_ms)
        self._gauge.reached(state.size)
        for key, position in batch.ends:
            if rebalances.guard is None or not rebalances.guard.waits(key):
                state.end_reached(key, position)
        if self._trace is not None and batch.runs:
            self._trace.polled(batch)
        self._rebalances.seek()
        self.deliver()
        resumed = self._pause_and_resume(client)
        self._tell_idle()
        self._bounded.look()
        rebalances.starting.look()
        if self._rest is not None:
            self._rest.polled(began_ms, brought=bool(batch.runs or batch.ends))
        if not self._at_home:
            return state.starving or resumed  # reading ahead is for those who have a thread to do it on
        return starving or resumed or (bool(batch.runs) and state.hungry)

    def _read(self, client: StreamConsumer, starving: bool) -> PollResult:
        state = self._context.state
        if starving:
            wait_ms = BUSY_POLL_MS if state.feeding else self._context.settings.poll_timeout_ms
            if not self._at_home:
                return client.read(self._at_once, 0)
            if self._rest is None:
                return client.read(self._at_once, wait_ms / 1_000)
            cell = self._cell()
            with cell.home.waiting_outside(cell):
                return client.read(self._at_once, min(wait_ms, VIRTUAL_POLL_MS) / 1_000)
        if state.hungry and self._at_home:
            return client.read(self._at_once, 0)
        return client.read(1, 0)  # serves rebalances; a record goes into its buffer

    def deliver(self) -> None:
        """Deliver what is buffered, as far as feeds have demand."""
        state, limit, tracker = self._context.state, self._context.settings.max_in_flight, self._context.tracker
        if limit is not None and tracker is not None:
            state.pausing.count_as_full(tracker.above_gap(limit))
        for delivery in state.deliveries():
            if tracker is not None and delivery.records:
                first = delivery.records[0]
                tracker.handed(delivery.key, delivery.epoch, first.offset(), delivery.end, made_at_ms(first))
            delivery.feed.deliver(delivery)

    def _pause_and_resume(self, client: StreamConsumer) -> bool:
        """Tell the client what `pausing.py` has decided; return True if something was resumed."""
        to_pause, to_resume = self._context.state.pauses(self._context.now_ms())
        if to_pause:
            client.pause(to_pause)
        if to_resume:
            client.resume(to_resume)
        return bool(to_resume)

    def _tell_idle(self) -> None:
        source = self._context.source
        silent = self._context.state.idle(self._context.now_ms(), IDLE_EVERY_MS)
        if silent:
            source.post(source.on_idle, [(p.key, p.epoch, silent_ms) for p, silent_ms in silent])
