"""Junctions that pair elements: zip, zip_with, zip_latest; and their opposite, unzip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import BLURS, BLURS_MEMORY, EXACT
from streamactors.engine.stage import NOT_USED, GraphStage, fan_in, fan_out
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function
from streamactors.stages.fan_in import FanInLogic


class ZipN(GraphStage):
    """Pair the elements of n inputs into tuples.

    Emits when: every input has an element.         Backpressures when: downstream does.
    Completes when: any input completes, after the tuple its last element belongs to.   Cancels when: downstream cancels.
    """

    name = "zip"
    handling = BLURS

    def __init__(self, inputs: int) -> None:
        self.inputs = at_least("ZipN", "inputs", inputs, 1)
        self.shape = fan_in(inputs)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _ZipLogic(None), NOT_USED


class Zip(ZipN):
    """Pair the elements of two inputs. See ZipN."""

    def __init__(self, inputs: int = 2) -> None:
        super().__init__(inputs)


class ZipWith(ZipN):
    """Combine the elements of n inputs with a function of n arguments. When it emits and ends: as ZipN."""

    name = "zip_with"

    def __init__(self, fn: Callable[..., Any], inputs: int = 2) -> None:
        super().__init__(inputs)
        self._fn = plain_function("ZipWith", fn)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _ZipLogic(self._fn), NOT_USED


class _ZipLogic(FanInLogic):
    def __init__(self, fn: Callable[..., Any] | None) -> None:
        super().__init__(eager_complete=True)
        self._fn = fn
        self._ended: frozenset[Any] = frozenset()  # the sources of inputs that have completed
        self._ending = False

    def on_start(self) -> None:
        for inlet in self.inlets:
            inlet.want(1)

    def on_pull(self, out: Connection) -> None:
        if not self._ending:
            self._pump()

    def on_push(self, in_: Connection) -> None:
        if self._ending:
            self._end()
        else:
            self._pump()

    def on_complete(self, in_: Connection) -> None:
        for ripe in self._marks.on_inlet_closed(in_.in_index):
            self.out.mark(ripe)
        self._ended |= in_.carries
        self._ending = True
        self._end()

    def _end(self) -> None:
        """Complete, but not before the last marks of a source that has ended have come by the other ways it takes.

        range -> broadcast -> zip: one way tells of the end first; cancelling the other would lose the mark on it."""
        for inlet in self.inlets:
            if not inlet.in_closed and not inlet.ready and inlet.carries & self._ended:
                return
        self.complete_stage()

    def _pump(self) -> None:
        out = self.out
        inlets = self.inlets
        while out.asked and all(inlet.ready for inlet in inlets):
            limit = min(out.asked, min(inlet.ready for inlet in inlets))
            columns = [inlet.grab(limit) for inlet in inlets]
            n = min(len(column) for column in columns)
            for inlet, column in zip(inlets, columns, strict=True):
                if len(column) > n:
                    inlet.unread(column[n:])
            if not n:  # a mark stands in front of one input; it is shown first, and then the elements again
                for inlet in inlets:
                    inlet.want(max(1, out.asked, inlet.due))
                return
            self._emit([column[:n] for column in columns])
        wanted = max(1, out.asked)
        for inlet in inlets:
            # an input that has elements waits for the others; it is looked at when one of them is shown
            if not inlet.ready:
                inlet.want(wanted)
            elif inlet.due < out.asked:
                inlet.ask(wanted)

    def _emit(self, columns: list[list[Any]]) -> None:
        rows = list(zip(*columns, strict=True))
        fn = self._fn
        if fn is None:
            self.out.push(rows)
            return
        results: list[Any] = []
        try:
            for row in rows:
                try:
                    results.append(fn(*row))
                except BaseException as error:
                    decider = self.attributes.decider
                    if decider is None or decider(error) is Directive.STOP:
                        blame(error, self.name, row, fn)
                        raise
        finally:
            if results:
                self.out.push(results)


class ZipLatest(GraphStage):
    """Pair the latest elements of n inputs, whenever one of them has a new one, once all have had one.

    Emits when: all inputs have had an element and one has a new one.   Backpressures when: downstream does.
    Completes when: any input completes (eager_complete=False: all), but not while its only element still waits for the others'.
    Cancels when: downstream cancels.
    """

    handling = BLURS_MEMORY

    def __init__(self, inputs: int = 2, fn: Callable[..., Any] | None = None, eager_complete: bool = True) -> None:
        self.shape = fan_in(at_least("ZipLatest", "inputs", inputs, 1))
        self._fn = None if fn is None else plain_function("ZipLatest", fn)
        self._eager_complete = eager_complete

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _ZipLatestLogic(self._fn, eager_complete=self._eager_complete), NOT_USED


_MISSING = object()


class _ZipLatestLogic(FanInLogic):
    def __init__(self, fn: Callable[..., Any] | None, *, eager_complete: bool) -> None:
        super().__init__(eager_complete=eager_complete)
        self._fn = fn

    def on_start(self) -> None:
        self._latest: list[Any] = [_MISSING] * len(self.inlets)
        self._missing = len(self.inlets)
        self._ending = False  # an input has completed whose element nobody has seen yet
        for inlet in self.inlets:
            inlet.want(1)

    def on_complete(self, in_: Connection) -> None:
        if self._eager_complete and self._missing and self._live > 1 and self._latest[in_.in_index] is not _MISSING:
            self._ending = True
            self._eager_complete = False
            super().on_complete(in_)
            self._eager_complete = True
        else:
            super().on_complete(in_)

    def on_pull(self, out: Connection) -> None:
        share = self.share()
        for inlet in self.inlets:
            if not inlet.in_closed:
                inlet.want(max(share, inlet.due))

    def on_push(self, in_: Connection) -> None:
        out = self.out
        index = in_.in_index
        latest = self._latest
        if not out.asked:
            return  # on_pull shows it again
        if self._missing:
            if latest[index] is not _MISSING:
                return  # its next element waits until all inputs have had one
            chunk = in_.grab(1)
            if not chunk:
                in_.want(max(1, in_.due))
                return
            latest[index] = chunk[0]
            self._missing -= 1
            if not self._missing:
                self._push([tuple(latest)])
                if self._ending:
                    self.complete_stage()
                else:
                    self.on_pull(out)
            return
        rows: list[tuple[Any, ...]] = []
        for element in in_.grab(out.asked):
            latest[index] = element
            rows.append(tuple(latest))
        if rows:
            self._push(rows)
        in_.want(max(self.share(), in_.due))

    def _push(self, rows: list[tuple[Any, ...]]) -> None:
        fn = self._fn
        if fn is None:
            self.out.push(rows)
            return
        results: list[Any] = []
        row: tuple[Any, ...] = ()
        try:
            for row in rows:
                results.append(fn(*row))  # the results before an error go out first
        except BaseException as error:
            blame(error, self.name, row, fn)
            raise
        finally:
            if results:
                self.out.push(results)


class UnzipWith(GraphStage):
    """Split each element into n parts with a function, one part to each output.

    Emits when: all outputs have demand and there is an element.   Backpressures when: any output does.
    Completes when: upstream completes.           Cancels when: any output cancels.
    """

    handling = EXACT

    def __init__(self, fn: Callable[[Any], Any] | None, outputs: int = 2) -> None:
        self.shape = fan_out(at_least("UnzipWith", "outputs", outputs, 1))
        self.outputs = outputs
        self._fn = None if fn is None else plain_function("UnzipWith", fn)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _UnzipLogic(self._fn, self.outputs), NOT_USED


class Unzip(UnzipWith):
    """Split tuples of n, one member to each output. See UnzipWith."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__(None, outputs)


class _UnzipLogic(Logic):
    passes_marks = True

    def __init__(self, fn: Callable[[Any], Any] | None, outputs: int) -> None:
        self._fn = fn
        self._n = outputs

    def on_pull(self, out: Connection) -> None:
        wanted = min(out.asked for out in self.outlets)
        if wanted:
            self.inlets[0].want(wanted)

    def on_push(self, in_: Connection) -> None:
        rows: list[Any] = []
        fn = self._fn
        element: Any = None
        try:
            for element in in_.grab(min(out.asked for out in self.outlets)):
                row = element if fn is None else fn(element)
                if len(row) != self._n:
                    raise BuildError(f"{self.name} has {self._n} outputs, got {len(row)} parts")
                rows.append(row)
        except BaseException as error:
            blame(error, self.name, element, fn)
            raise
        finally:
            if rows:
                for out, column in zip(self.outlets, zip(*rows, strict=True), strict=True):
                    out.push(list(column))
        wanted = min(out.asked for out in self.outlets)
        if wanted:
            in_.want(max(wanted, in_.due))
