"""Operators that may give several results for an element: map_concat, map_chunks, intersperse.

Marks wait while an element is half out, so they pass exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import EXACT, EXACT_MEMORY
from streamactors.engine.pace import Pace
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.stages.checks import plain_function
from streamactors.stages.emitting import NOT_GIVEN, EmittingLogic


class MapConcat(Stage[In, Out]):
    """Turn each element into an iterable and emit what that gives, one element's after the other's.

    Iterators are read as there is demand, and one result ahead, so they may be endless.
    Emits when: the current iterable has a result.   Backpressures when: downstream does, or the current iterable has more.
    Completes when: upstream completes and the last iterable is through.   Cancels when: downstream cancels.
    Supervision: resume and restart drop the element, and what its iterable still had.
    Marks: held while an element is half out; exact.
    """

    handling = EXACT

    def __init__(self, fn: Callable[[Any], Iterable[Any]]) -> None:
        self._fn = plain_function("map_concat", fn)

    def logic(self) -> Logic:
        return _MapConcatLogic(self._fn)


class _MapConcatLogic(FlowLogic):
    passes_marks = True

    def __init__(self, fn: Callable[[Any], Iterable[Any]]) -> None:
        self._fn = fn
        self._element: Any = None
        self._current: Iterator[Any] | None = None  # of the element that is half out
        self._ahead: list[Any] = []  # at most one result, read to see whether the iterator has ended

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def on_pull(self, out: Connection) -> None:
        if self._current is None:
            self._ask(out.asked)
            return
        pace = self._pace
        results, self._ahead = self._ahead, []
        asked = out.asked
        stop = pace.begin()
        failure: BaseException | None = None
        try:
            self._read(self._current, results, asked if asked < pace.limit else pace.limit, stop)
        except BaseException as error:  # noqa: BLE001  # the user's iterator
            failure = self._after(error)
            self._current = None
        pace.end(len(results))
        self._hand_on(results, failure)

    def on_push(self, in_: Connection) -> None:
        if self._current is not None:
            return
        asked = self.out.asked
        pace = self._pace
        chunk = in_.grab(asked if asked < pace.limit else pace.limit)
        n = len(chunk)
        feed: Any = iter(chunk)
        results: list[Any] = []
        stop = pace.begin()
        failure: BaseException | None = None
        while True:
            try:
                self._loop(feed, results, asked, stop)
            except BaseException as error:  # noqa: BLE001  # the user's function or iterator
                self._current = None
                failure = self._after(error)
                if failure is not None or stop:
                    break
            else:
                break
        left = feed.__length_hint__()
        pace.end(n - left)
        if left and failure is None:
            in_.unread(chunk[n - left :])
        self._hand_on(results, failure)

    def _loop(self, feed: Iterator[Any], results: list[Any], asked: int, stop: list[int]) -> None:
        fn = self._fn
        if len(results) == asked:
            return
        for self._element in feed:  # kept for the error
            made = fn(self._element)
            if type(made) is list or type(made) is tuple:
                room = asked - len(results)
                if len(made) <= room:
                    results += made
                else:
                    results += made[:room]
                    self._current = iter(made[room:])
                    return
            else:
                self._current = current = iter(made)
                self._read(current, results, asked, stop)
                if self._current is not None:
                    return
            if stop or len(results) == asked:
                return

    def _read(self, current: Iterator[Any], results: list[Any], room: int, stop: list[int]) -> None:
        """Read results until there are `room` of them, and one ahead; forget the iterator when it has ended."""
        append = results.append
        for result in current:
            if len(results) >= room:
                self._ahead.append(result)
                return
            append(result)
            if stop:
                return
        self._current = None

    def _after(self, error: BaseException) -> BaseException | None:
        """Ask the decider; return the error that stops the stage, None to go on."""
        try:
            return error if directive_for(self, error, self._element, self._fn) is Directive.STOP else None
        except BaseException as worse:  # noqa: BLE001  # the decider's own
            return worse

    def _hand_on(self, results: list[Any], failure: BaseException | None) -> None:
        out = self.out
        if results:
            out.push(results)
        if failure is not None:
            self.fail_stage(failure)
        elif self._current is not None:
            self.in_.hold()
            if out.asked:
                out.again()  # the slice ended before the demand
        else:
            self._element = None
            self.in_.release()
            if out.asked:
                self._ask(out.asked)

    def _ask(self, asked: int) -> None:
        window = self._pace.window
        self.in_.want(asked if asked < window else window)

    def on_stop(self) -> None:
        close = getattr(self._current, "close", None)
        if close is not None:
            close()  # a generator's `finally` runs now, not when somebody collects it

    def snapshot_state(self) -> str:
        return "an element is half out" if self._current is not None else ""


class MapChunks(Stage[In, Out]):
    """Give whole chunks to a function, for numpy, Arrow, polars and the like: `fn(list of elements)` returns any iterable of results.

    How elements are cut into chunks depends on demand and timing: the results must not. `grouped` gives chunks of one length.
    Emits when: the function has returned results.   Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Supervision: resume and restart drop the chunk.
    Marks: behind the results of the chunk before them; exact.
    """

    handling = EXACT

    def __init__(self, fn: Callable[[list[Any]], Iterable[Any]]) -> None:
        self._fn = plain_function("map_chunks", fn)

    def logic(self) -> Logic:
        return _MapChunksLogic(self._fn)


class _MapChunksLogic(EmittingLogic):
    passes_marks = True

    def __init__(self, fn: Callable[[list[Any]], Iterable[Any]]) -> None:
        self._fn = fn

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def ask(self, asked: int) -> None:
        window = self._pace.window
        self.in_.want(asked if asked < window else window)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        asked = self.out.asked
        chunk = in_.grab(asked if asked < pace.limit else pace.limit)
        if chunk:
            pace.begin()
            results: list[Any] = []
            try:
                results = list(self._fn(chunk.copy()))  # theirs to change; the chunk may be shared with other branches
            except BaseException as error:
                if directive_for(self, error, chunk, self._fn) is Directive.STOP:
                    raise
            finally:
                pace.end(len(chunk))
            self.emit(results)
        if self.out.asked:
            self.ask(self.out.asked)


class Intersperse(Stage[In, Out]):
    """Put a separator between elements; with `start` and `end` these before the first and behind the last, also when there is none.

    Emits when: upstream does, or before: `start`.   Backpressures when: downstream does.
    Completes when: upstream completes and `end` has been emitted.   Cancels when: downstream cancels.
    Marks: held while an element waits behind its separator; exact, remembers.
    """

    handling = EXACT_MEMORY

    def __init__(self, separator: Any, start: Any = NOT_GIVEN, end: Any = NOT_GIVEN) -> None:
        self._separator = separator
        self._start = [] if start is NOT_GIVEN else [start]
        self._end = [] if end is NOT_GIVEN else [end]

    def logic(self) -> Logic:
        return _IntersperseLogic(self._separator, self._start, self._end)


class _IntersperseLogic(EmittingLogic):
    passes_marks = True

    def __init__(self, separator: Any, start: list[Any], last: list[Any]) -> None:
        self._separator = separator
        self._start = start
        self._last = last
        self._first = True

    def ask(self, asked: int) -> None:
        # each element takes two places, the first one only its own and that of `start`
        self.in_.want((asked + 1) // 2 if not self._first or self._start else asked // 2 + 1)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab((self.out.asked + 1) // 2)
        if chunk:
            results = [self._separator] * (2 * len(chunk))
            results[1::2] = chunk
            if self._first:
                self._first = False
                results[:1] = self._start
            self.emit(results)
        if self.out.asked:
            self.ask(self.out.asked)

    def on_complete(self, in_: Connection) -> None:
        self.emit_and_end([*(self._start if self._first else ()), *self._last])
