"""The stage that writes to Kafka: it sends records as they come, and emits results and marks in order after the acknowledgements.

A full queue of librdkafka is back-pressure: the stage keeps the unsent records and stops asking until the next report arrives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks.marks import EXACT, Mark, merge_newer
from streamactors.engine.stage import NOT_USED, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.kafka.client.producer import Report, StreamProducer
from streamactors.kafka.client.traced_producer import producer_of
from streamactors.kafka.producer_record import MultiMessage, PassThroughMessage, ProducerRecord
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.writing.deliveries import Failure, SentMessages, SentRecords, SentSeveral, Slot, runs_of

ALL = 1 << 62
_SENT = (SentMessages, SentSeveral, SentRecords)


class ProducerStage(Stage[Any, Any]):
    """Write records, and emit results in the order of the elements.

    Emits when: the oldest element's records are acknowledged.   Backpressures when: `parallelism` elements wait, or the queue is full.
    Completes when: upstream completes and all is acknowledged.  Cancels when: downstream cancels; sent records stay sent.
    Fails when: a record cannot be delivered; queued records are dropped, unless the producer is shared. Supervision: resume and
    restart drop the element.   Marks: after the acknowledgement of all records before them; exact.
    """

    handling = EXACT

    def __init__(
        self, name: str, settings: ProducerSettings, producer: StreamProducer | None, *, envelopes: bool, results: bool
    ) -> None:
        self.name = name
        self.settings = settings
        self.producer = producer
        self.envelopes = envelopes
        self.results = results

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return ProducerLogic(self), NOT_USED


class ProducerLogic(FlowLogic):
    """See the stage. `_queue` holds the sent elements and the marks between them, in order."""

    def __init__(self, stage: ProducerStage) -> None:
        self._stage = stage
        self.kafka_settings = stage.settings
        self._queue: deque[Any] = deque()
        self._inside = 0
        self._unsent: list[tuple[ProducerRecord, Slot]] = []  # of one envelope: the queue was full
        self._full = False
        self._completing = False
        self._ready = False
        self._told = False
        self._producer: StreamProducer
        self._failure: BaseException | None = None
        self._listener = self._on_reports_elsewhere

    def on_start(self) -> None:
        self._producer = producer = self._stage.producer or producer_of(self._stage.settings)
        self._tell = self.async_callback(self._on_reports).invoke
        producer.listen(self._listener)
        producer.rest.attach_to(self.interpreter.island.run.system.clock)
        started = self.async_callback(self._on_started)
        producer.start().add_done_callback(lambda future: started.invoke(future.exception()))

    def _on_started(self, error: BaseException | None) -> None:
        if error is not None:
            self.fail_stage(error)
            return
        self._ready = True
        self._move_on()

    # ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._move_on()

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self.room)
        sent = self._send(chunk)
        if sent < len(chunk):
            in_.unread(chunk[sent:])
        producer = self._producer
        served = producer.serve(self._listener)
        if self._full and served:
            self._send_on()
        if self.waits_for_reports:
            producer.wake()
        self._move_on()

    @property
    def room(self) -> int:
        """The number of elements that may be sent now."""
        return self._stage.settings.parallelism - self._inside

    @property
    def waits_for_reports(self) -> bool:
        """True when the stage needs the reports of its records to continue."""
        return True

    def _send(self, chunk: list[Any]) -> int:
        """Send elements until the queue is full; return how many were taken."""
        taken = 0
        if not self._stage.envelopes:
            taken = self._send_records(chunk)
        else:
            for plain, run in runs_of(chunk):
                taken += self._send_messages(run) if plain else self._send_several(run[0])
                if self._full:
                    break
        self._inside += taken
        return taken

    def _send_records(self, records: list[Any]) -> int:
        sent = SentRecords()
        self._queue.append(sent)
        taken = self._produce(records, repeat(sent.report), lambda n, error: sent.refused(records[n], error))
        sent.sent(taken)
        return taken

    def _produce(
        self, records: list[Any], reports: Iterable[Report], refused: Callable[[int, BaseException], None]
    ) -> int:
        taken = self._producer.produce_all(records, reports, refused)
        self._full = self._full or taken < len(records)
        return taken

    def _produce_slots(self, records: list[Any], slots: list[Slot]) -> int:
        """Send records that report into slots; return how many were taken."""

        def refused(n: int, error: BaseException) -> None:
            slots[n][error] = None

        return self._produce(records, [slot.setdefault for slot in slots], refused)

    def _send_messages(self, messages: list[Any]) -> int:
        slots: list[Slot] = [{} for _ in messages]
        taken = self._produce_slots([message[0] for message in messages], slots)
        if taken:
            self._queue.append(SentMessages(messages, slots[:taken]))
        return taken

    def _send_several(self, envelope: Any) -> int:
        slots: list[Slot] = []
        if type(envelope) is MultiMessage:
            slots = [{} for _ in envelope.records]
            self._unsent = list(zip(envelope.records, slots, strict=True))
            self._send_rest()
        elif type(envelope) is not PassThroughMessage:
            error = TypeError(
                "a producer's flow takes ProducerMessage.message(…), .multi(…) or .pass_through(…), "
                f"got {type(envelope).__name__}"
            )
            slots = [{error: None}]
        self._queue.append(SentSeveral(envelope, slots))
        return 1

    def _send_rest(self) -> None:
        """Send the records that an envelope of several still has."""
        unsent = self._unsent
        if unsent:
            taken = self._produce_slots([record for record, _ in unsent], [slot for _, slot in unsent])
            self._unsent = unsent[taken:]

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        queue = self._queue
        if not queue:
            self.out.mark(mark)
        elif type(mark) is dict:
            if type(queue[-1]) is dict:
                merge_newer(queue[-1], mark)
            else:
                queue.append(mark.copy())
        else:
            queue.append(mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self._move_on()

    # ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_reports_elsewhere(self) -> None:
        if not self._told:
            self._told = True
            self._tell(None)

    def _on_reports(self, _: None) -> None:
        self._told = False
        if self._full:
            self._send_on()
        self._move_on()

    def _send_on(self) -> None:
        """Reports have made room in the full queue: send the rest."""
        self._full = False
        self._send_rest()
        self._producer.wake()

    def _move_on(self) -> None:
        if not self._ready:
            return
        self._emit()
        if self._failure is not None:
            self.fail_stage(self._failure)
        elif self._completing and not self._queue and self.may_complete():
            self.complete_stage()
        elif not self._full and not self._completing:
            self._ask()

    def _ask(self) -> None:
        """Raise the demand in steps of a quarter: acknowledgements that come one by one must not become chunks of one record upstream."""
        room, due = min(self.room, self.widest), self.in_.due
        self.in_.want(room if (room - due) * 4 >= self.widest else min(room, due))

    @property
    def widest(self) -> int:
        """The largest demand of the stage, in elements."""
        return min(self._stage.settings.parallelism, MAX_ASKED)

    def may_complete(self) -> bool:
        """True unless the stage waits for more than acknowledgements."""
        return True

    def _emit(self) -> None:
        """Emit acknowledged results up to the demand, and the marks between them."""
        out, queue = self.out, self._queue
        results: list[Any] = []
        emits = self._stage.results
        while queue:
            head = queue[0]
            if not isinstance(head, _SENT):
                if results:
                    out.push(results)
                    results = []
                out.mark(queue.popleft())
                continue
            due, through, failures = head.take(out.asked - len(results) if emits else ALL)
            self._inside -= through
            if emits and due:
                results = results + due if results else due
            if any(map(self._failed, failures)) or not (head.over or failures):
                break
            if head.over:
                queue.popleft()
        if results:
            out.push(results)

    def _failed(self, failure: Failure) -> bool:
        """An element was not delivered: True when the stage fails, False when it is dropped."""
        element, record, reason = failure
        error = self._producer.not_delivered(record, reason)
        try:
            if directive_for(self, error, element) is not Directive.STOP:
                return False
        except BaseException as worse:  # noqa: BLE001  # the decider's own
            error = worse
        self._failure = error
        return True

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error
        super().fail_stage(error)

    def on_stop(self) -> None:
        producer = getattr(self, "_producer", None)
        if producer is None:
            return
        producer.forget(self._listener)
        if producer is not self._stage.producer:
            producer.close(drop=self._failure is not None)

    def outside_wait(self) -> str:
        return "until the broker acknowledges its records"

    def snapshot_state(self) -> str:
        return f"{self._inside} not acknowledged{'; the queue is full' if self._full else ''}"
