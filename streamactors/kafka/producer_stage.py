"""The stage that writes to Kafka: sends as records come, lets results and marks out in their order once the broker has acknowledged.

A full queue of librdkafka is back-pressure: what cannot be sent waits, nothing more is asked for, and the next report starts it again."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import EXACT, Mark, merge_newer
from streamactors.engine.stage import NOT_USED, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.kafka.client_producer import Slot, StreamProducer, not_delivered
from streamactors.kafka.producer_record import (
    Message,
    MultiMessage,
    MultiResult,
    PassThroughMessage,
    PassThroughResult,
    ProducerRecord,
    RecordMetadata,
    Result,
    checked_record,
)
from streamactors.kafka.settings import ProducerSettings

Sent = tuple[Any, Any]  # (element, its slot or slots)


class ProducerStage(Stage[Any, Any]):
    """Write records, and emit results in the order of the elements.

    Emits when: the oldest element's records are acknowledged.   Backpressures when: `parallelism` elements wait, or the queue is full.
    Completes when: upstream completes and all is acknowledged.  Cancels when: downstream cancels; what was sent stays sent.
    Fails when: a record cannot be delivered; what is queued is dropped, unless the producer is shared. Supervision: resume and
    restart drop the element.   Marks: behind the acknowledgement of everything before them; exact.
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
    """See the stage. `_queue` holds what was sent and the marks between, in order."""

    def __init__(self, stage: ProducerStage) -> None:
        self._stage = stage
        self._queue: deque[Any] = deque()
        self._inside = 0
        self._unsent: deque[tuple[ProducerRecord, Slot]] = deque()  # the queue was full
        self._completing = False
        self._ready = False
        self._told = False
        self._producer: StreamProducer | None = None
        self._failure: BaseException | None = None

    def on_start(self) -> None:
        self._producer = producer = self._stage.producer or StreamProducer(self._stage.settings)
        self._tell = self.async_callback(self._on_reports).invoke
        producer.listen(self._on_reports_elsewhere)
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
        chunk = in_.grab(self._stage.settings.parallelism - self._inside)
        sent = self._send(chunk)
        if sent < len(chunk):
            in_.unread(chunk[sent:])
        self._move_on()

    def _send(self, chunk: list[Any]) -> int:
        """Send elements until the queue is full; return how many were taken."""
        producer = self._producer
        assert producer is not None
        queue = self._queue
        send, produce = producer.send, producer.produce
        envelopes = self._stage.envelopes
        taken = 0
        for element in chunk:
            taken += 1
            slot: Any = {}
            if not envelopes:
                record = element
                queue.append((element, slot))
            elif type(element) is Message:
                record = element.record
                queue.append(Result((element, slot)))
            else:
                queue.append((element, self._send_several(element)))
                if self._unsent:
                    break
                continue
            try:
                if type(record) is ProducerRecord:
                    topic, value, key, partition, timestamp, headers = record
                    if timestamp is None and headers is None:
                        produce(topic, value, key, -1 if partition is None else partition, slot.setdefault)
                        continue
                send(record, slot)
            except BufferError:
                self._unsent.append((record, slot))
                break
            except Exception:  # noqa: BLE001  # told in its turn, behind what was sent before
                if not self._sent_again(record, slot):
                    break
        self._inside += taken
        producer.wake()
        return taken

    def _sent_again(self, record: Any, slot: Slot) -> bool:
        """Send what was refused once more, to have the error in the terms of this package. False: the queue is full."""
        assert self._producer is not None
        try:
            self._producer.send(record, slot)
        except BufferError:
            self._unsent.append((record, slot))
            return False
        except Exception as error:  # noqa: BLE001
            slot[_cause(record, error)] = None
        return True

    def _send_several(self, element: Any) -> Any:
        if type(element) is PassThroughMessage:
            return _NONE
        if type(element) is not MultiMessage:
            error = TypeError(
                f"a producer's flow takes ProducerMessage.message(…), .multi(…) or .pass_through(…), got {type(element).__name__}"
            )
            return [{error: None}]
        slots: list[Slot] = [{} for _ in element.records]
        for record, slot in zip(element.records, slots, strict=True):
            self._unsent.append((record, slot))
        self._send_rest()
        return slots

    def _send_rest(self) -> None:
        assert self._producer is not None
        unsent = self._unsent
        while unsent:
            record, slot = unsent[0]
            try:
                self._producer.send(record, slot)
            except BufferError:
                return
            except Exception as error:  # noqa: BLE001
                slot[_cause(record, error)] = None
            unsent.popleft()

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
        if self._unsent:
            self._send_rest()
            assert self._producer is not None
            self._producer.wake()
        self._move_on()

    def _move_on(self) -> None:
        if not self._ready:
            return
        self._emit()
        if self._failure is not None:
            self.fail_stage(self._failure)
        elif self._completing and not self._queue and self.may_complete():
            self.complete_stage()
        elif not self._unsent and not self._completing:
            self.in_.want(self._stage.settings.parallelism - self._inside)

    def may_complete(self) -> bool:
        """True unless there is more to do than wait for acknowledgements."""
        return True

    def _emit(self) -> None:
        out, queue = self.out, self._queue
        results: list[Any] = []
        emits = self._stage.results
        while queue:
            head = queue[0]
            if type(head) is Result:
                slot = head[1]
                if None in slot and emits:
                    if len(results) == out.asked:
                        break
                    results.append(head)
                    self._inside -= 1
                    queue.popleft()
                    continue
                if not slot:
                    break
            if not isinstance(head, tuple):
                if results:
                    out.push(results)
                    results = []
                out.mark(head)
            else:
                element, slot = head
                if type(slot) is dict:
                    if not slot:
                        break
                    good = None in slot
                else:
                    if not all(slot):
                        break
                    good = all(None in each for each in slot)
                if not good:
                    if self._failed(element, slot):
                        break
                elif emits:
                    if len(results) == out.asked:
                        break
                    results.append(_result(element, slot))
                self._inside -= 1
            queue.popleft()
        if results:
            out.push(results)

    def _failed(self, element: Any, slot: Any) -> bool:
        """An element was not delivered: True when the stage fails, False when it is dropped."""
        if type(slot) is dict:
            error = not_delivered(element.record if self._stage.envelopes else element, next(iter(slot)))
        else:
            pairs = zip(getattr(element, "records", (None,)), slot, strict=True)
            error = next(not_delivered(record, next(iter(each))) for record, each in pairs if None not in each)
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
        producer = self._producer
        if producer is None:
            return
        producer.forget(self._on_reports_elsewhere)
        if producer is not self._stage.producer:
            producer.close(drop=self._failure is not None)

    def snapshot_state(self) -> str:
        return f"{self._inside} not acknowledged{'; the queue is full' if self._unsent else ''}"


_NONE: list[Slot] = []


def _cause(record: Any, error: Exception) -> BaseException:
    """Return the better error for what is no record at all."""
    try:
        checked_record(record)
    except Exception as better:  # noqa: BLE001
        return better
    return error


def _result(element: Any, slot: Any) -> Any:
    if slot is _NONE:
        return PassThroughResult(element.pass_through)
    return MultiResult(tuple(RecordMetadata((each[None],)) for each in slot), element)
