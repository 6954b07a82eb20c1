"""The worker's side of `map_parallel`: calls the function with the elements of each task, and answers with the results.

Owner: the worker process, which has one thread. It ends when the parent closes the socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.workers.channel import Channel
from streamactors.actors.workers.chunks import chunk_of, encode
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.codec import CodecError, loads
from streamactors.engine.supervision import Decider, Directive, log_skipped
from streamactors.engine.user_code import blame
from streamactors.engine.workers.wire import described, encodable_prefix, frame_of, refused
from streamactors.tracing import switch

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TASK: Final = 2
RESULTS: Final = 3
"""All results of a task; `count` is the time that it took, in µs."""
FAILED: Final = 4
"""The length of an encoded error, the error, then the results of the elements before it."""
CONTEXT: Final = 5
"""The context of the sampled record that the elements of the next task stem from. It has no answer."""
END: Final = 6
"""No task follows: export what is left, and end."""
ERROR_LENGTH: Final = Struct("<I")


def serve(
    channel: Channel,
    fn: Callable[[Any], Any],
    decider: Decider | None,
    label: str,
    traces: dict[str, Any] | None = None,
) -> None:
    """Answer tasks until the parent closes the socket. The job of the worker process. `traces`: how it traces (`Spans.for_workers`)."""
    tracing = None
    if traces is not None:
        from streamactors.tracing.setup import set_up_worker

        tracing = set_up_worker(switch, traces)
    try:
        _serve(channel, fn, decider, label)
    finally:
        if tracing is not None:
            tracing.shutdown()


def _serve(channel: Channel, fn: Callable[[Any], Any], decider: Decider | None, label: str) -> None:
    frames: list[Frame] = []
    context: tuple[bytes, str] | None = None
    while True:
        for frame in frames:
            if frame.kind == END:
                return
            if frame.kind == CONTEXT:
                parent, state = loads(frame.payload)
                context = parent, state
                continue
            with _in_trace(context) as record:
                channel.send(_answered(frame, fn, decider, label, record))
            context = None
        frames.clear()
        try:
            if not channel.receive(frames):
                return
        except ConnectionError:
            return


@contextmanager
def _in_trace(context: tuple[bytes, str] | None) -> Iterator[Span | None]:
    """Run a task while a stand-in for the span of its sampled record is current. Without a context: while none is."""
    spans = switch.installed
    record = None if context is None or spans is None else spans.heard(*context)
    if spans is None or record is None:
        yield None
        return
    leave = spans.enter(record)
    try:
        yield record
    finally:
        leave()


def _answered(
    frame: Frame, fn: Callable[[Any], Any], decider: Decider | None, label: str, record: Span | None
) -> list[Buffer]:
    began = perf_counter()
    results: list[Any] = []
    failure: BaseException | None = None
    for element in chunk_of(frame):
        try:
            results.append(fn(element))
        except Exception as error:  # noqa: BLE001  # the user's function
            failure = _judged(error, element, fn, decider, label)
            if record is not None:
                _note(record, label, error if failure is None else failure)
            if failure is not None:
                break
    try:
        buffers = encode(results)
    except CodecError as error:
        failure = refused(error, f"results of stage '{label}'", "leave")
        buffers = encode(encodable_prefix(results))
    if failure is None:
        return frame_of(RESULTS, buffers, int((perf_counter() - began) * 1e6), frame.number)
    description = described(failure)
    return frame_of(FAILED, [ERROR_LENGTH.pack(len(description)), description, *buffers], number=frame.number)


def _note(record: Span, label: str, error: BaseException) -> None:
    """Make a span of the stage that says what was raised: the span of the record is in the parent."""
    from streamactors.tracing.spans import failed

    spans = switch.installed
    span = None if spans is None else spans.stage(label, record.get_span_context())
    if span is not None:
        failed(span, error)
        span.end()


def _judged(
    error: Exception, element: Any, fn: Callable[[Any], Any], decider: Decider | None, label: str
) -> BaseException | None:
    """Return the error that stops the stage; None if the element is dropped."""
    blame(error, label, element, fn)
    try:
        if decider is None or decider(error) is Directive.STOP:
            return error
    except Exception as worse:  # noqa: BLE001  # the decider's own
        return worse
    log_skipped(None, error)
    return None
