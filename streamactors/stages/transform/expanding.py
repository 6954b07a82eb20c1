"""Operators that may have several results for an element: map_concat, map_chunks, intersperse.

A mark waits until all results of the elements before it have been emitted, so marks pass exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT, EXACT_MEMORY
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import Directive, directive_for, failure_of
from streamactors.stages.bases.emitting import EmittingLogic
from streamactors.stages.checks import plain_function
from streamactors.stages.defaults import NOT_GIVEN


class MapConcat(Stage[In, Out]):
    """The stage of `Source.map_concat` and `Source.rows`."""

    traits = StageTraits(ends_with_inputs=True)
    handling = EXACT

    def __init__(self, fn: Callable[[Any], Iterable[Any]]) -> None:
        self.fn = plain_function("map_concat", fn)


@logic_of(MapConcat)
class MapConcatLogic(FlowLogic):
    """Owns the iterable that is being read; `begin` sets the function."""

    passes_marks = True

    def __init__(self, stage: MapConcat[Any, Any]) -> None:
        super().__init__(stage)
        self._element: Any = None
        self._current: Iterator[Any] | None = None  # the iterator that has not ended
        self._ahead: list[Any] = []  # at most one result, read to see whether the iterator has ended

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.begin()

    def begin(self) -> None:
        """Set the function of this run; called again when supervision restarts the stage."""
        self.fn = self.stage.fn

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
            failure = self._after(error, self._element, results)
        pace.end(len(results))
        self._hand_on(results, failure)

    def on_push(self, in_: Connection) -> None:
        if self._current is not None:
            return
        asked = self.out.asked
        pace = self._pace
        results: list[Any] = []
        failure = pace.run(in_, asked, partial(self._loop, asked), results, self._after)
        pace.give_back(in_)
        self._hand_on(results, failure)

    def _loop(self, asked: int, feed: Iterator[Any], results: list[Any], stop: list[int]) -> None:
        fn = self.fn
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

    def _after(self, error: BaseException, element: Any, _: list[Any]) -> BaseException | None:
        self._current = None
        return failure_of(self, error, element, self.fn, self.begin)

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
        self._pace.ask(self.in_, asked, False)

    def on_stop(self) -> None:
        close = getattr(self._current, "close", None)
        if close is not None:
            close()  # a generator's `finally` runs now, not when the generator is freed

    def snapshot_state(self) -> str:
        return "emits an iterable" if self._current is not None else ""


class MapChunks(Stage[In, Out]):
    """The stage of `Source.map_chunks`."""

    handling = EXACT

    def __init__(self, fn: Callable[[list[Any]], Iterable[Any]]) -> None:
        self.fn = plain_function("map_chunks", fn)


@logic_of(MapChunks)
class _MapChunksLogic(EmittingLogic):
    stage: MapChunks[Any, Any]
    passes_marks = True

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def ask(self, asked: int) -> None:
        self._pace.ask(self.in_, asked, False)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        asked = self.out.asked
        chunk = in_.grab(asked if asked < pace.limit else pace.limit)
        if chunk:
            pace.begin()
            results: list[Any] = []
            try:
                results = list(
                    self.stage.fn(chunk.copy())
                )  # theirs to change; the chunk may be shared with other branches
            except BaseException as error:
                if directive_for(self, error, chunk, self.stage.fn) is Directive.STOP:
                    raise
            finally:
                pace.end(len(chunk))
            self.emit(results)
        if self.out.asked:
            self.ask(self.out.asked)


class Intersperse(Stage[In, Out]):
    """The stage of `Source.intersperse`."""

    handling = EXACT_MEMORY

    def __init__(self, separator: Any, start: Any = NOT_GIVEN, end: Any = NOT_GIVEN) -> None:
        self.separator = separator
        self.start = [] if start is NOT_GIVEN else [start]
        self.end = [] if end is NOT_GIVEN else [end]


@logic_of(Intersperse)
class _IntersperseLogic(EmittingLogic):
    passes_marks = True

    stage: Intersperse[Any, Any]
    _first = True

    def ask(self, asked: int) -> None:
        # each element has two results: itself and its separator; the first element has no separator, but perhaps `start`
        self.in_.want((asked + 1) // 2 if not self._first or self.stage.start else asked // 2 + 1)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab((self.out.asked + 1) // 2)
        if chunk:
            results = [self.stage.separator] * (2 * len(chunk))
            results[1::2] = chunk
            if self._first:
                self._first = False
                results[:1] = self.stage.start
            self.emit(results)
        if self.out.asked:
            self.ask(self.out.asked)

    def on_complete(self, in_: Connection) -> None:
        self.emit_and_end([*(self.stage.start if self._first else ()), *self.stage.end])
