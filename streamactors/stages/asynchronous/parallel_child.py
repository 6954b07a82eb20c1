"""The worker's side of `map_parallel`: calls the function with the elements of each task, and answers with the results.

Owner: the worker process, which has one thread. It ends when the parent closes the socket."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import Any, Final

from streamactors.actors.workers.channel import Channel
from streamactors.actors.workers.chunks import chunk_of, encode
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.codec import CodecError
from streamactors.engine.supervision import Decider, Directive, log_skipped
from streamactors.engine.user_code import blame
from streamactors.engine.workers.wire import described, encodable_prefix, frame_of, refused

TASK: Final = 2
RESULTS: Final = 3
"""All results of a task; `count` is the time that it took, in µs."""
FAILED: Final = 4
"""The length of an encoded error, the error, then the results of the elements before it."""
ERROR_LENGTH: Final = Struct("<I")


def serve(channel: Channel, fn: Callable[[Any], Any], decider: Decider | None, label: str) -> None:
    """Answer tasks until the parent closes the socket. The job of the worker process."""
    frames: list[Frame] = []
    while True:
        for frame in frames:
            channel.send(_answered(frame, fn, decider, label))
        frames.clear()
        try:
            if not channel.receive(frames):
                return
        except ConnectionError:
            return


def _answered(frame: Frame, fn: Callable[[Any], Any], decider: Decider | None, label: str) -> list[Buffer]:
    began = perf_counter()
    results: list[Any] = []
    failure: BaseException | None = None
    for element in chunk_of(frame):
        try:
            results.append(fn(element))
        except Exception as error:  # noqa: BLE001  # the user's function
            failure = _judged(error, element, fn, decider, label)
            if failure is not None:
                break
    try:
        buffers = encode(results)
    except CodecError as error:
        failure = refused(error, f"results of stage '{label}'", "leave")
        buffers = encode(encodable_prefix(results))
    if failure is None:
        return frame_of(RESULTS, buffers, int((perf_counter() - began) * 1e6), frame.number)
    told = described(failure)
    return frame_of(FAILED, [ERROR_LENGTH.pack(len(told)), told, *buffers], number=frame.number)


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
