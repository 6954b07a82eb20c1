"""Junctions that pair elements: zip, zip_with, zip_latest; and their opposite, unzip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS, BLURS_MEMORY, EXACT
from streamactors.engine.stage import Element, Junction, fan_in, fan_out
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function
from streamactors.stages.junctions.fan_in import FanInLogic
from streamactors.stages.junctions.fan_out import FanOutLogic


class ZipN(Junction[Any, Element]):
    """Pair the elements of n inputs into tuples, in the order in which they arrive at each input.

    A filter on one way between a broadcast and a zip shifts the pairs against each other, and the stream stops when the other way is full
    of elements that wait for a partner. Zip first and filter the pairs, or keep a place for each element (`map` to None).

    The four "when"s are those of `Source.zip`.
    """

    name = "zip"
    handling = BLURS
    fn: Callable[..., Any] | None = None

    def __init__(self, inputs: int) -> None:
        self.inputs = at_least("ZipN", "inputs", inputs, 1)
        self.shape = fan_in(inputs)


class Zip(ZipN[tuple[Any, Any]]):
    """Pair the elements of two inputs. See ZipN."""

    def __init__(self, inputs: int = 2) -> None:
        super().__init__(inputs)


class ZipWith(ZipN[Element]):
    """Combine the elements of n inputs with a function of n arguments.

    The four "when"s are those of `Source.zip_with`.
    """

    name = "zip_with"

    def __init__(self, fn: Callable[..., Element], inputs: int = 2) -> None:
        super().__init__(inputs)
        self.fn = plain_function("ZipWith", fn)


@logic_of(ZipN)
class _ZipLogic(FanInLogic):
    _ended: frozenset[Any] = frozenset()  # the sources of inputs that have completed
    _ending = False

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
        """Complete, but not before the last marks of an ended source have arrived at every inlet that carries them.

        range -> broadcast -> zip: one inlet completes first; cancelling the other would lose the mark in front of its completion."""
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
            if not n:  # a mark is first at an inlet: after `on_mark` comes another `on_push`
                for inlet in inlets:
                    inlet.want(max(1, out.asked, inlet.due))
                return
            self._emit([column[:n] for column in columns])
        wanted = max(1, out.asked)
        for inlet in inlets:
            # an inlet with elements needs no `on_push`: the others' will pump
            if not inlet.ready:
                inlet.want(wanted)
            elif inlet.due < out.asked:
                inlet.ask(wanted)

    def _emit(self, columns: list[list[Any]]) -> None:
        rows = list(zip(*columns, strict=True))
        fn = self.stage.fn
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
                    self.failures += 1
        finally:
            if results:
                self.out.push(results)


class ZipLatest(Junction[Any, Element]):
    """Pair the latest elements of n inputs, each time that one of them has a new element, once all have had one.

    The four "when"s are those of `Source.merge_latest`.
    """

    handling = BLURS_MEMORY

    def __init__(self, inputs: int = 2, fn: Callable[..., Any] | None = None, eager_complete: bool = True) -> None:
        self.shape = fan_in(at_least("ZipLatest", "inputs", inputs, 1))
        self.fn = None if fn is None else plain_function("ZipLatest", fn)
        self.eager_complete = eager_complete


_MISSING = object()


@logic_of(ZipLatest)
class _ZipLatestLogic(FanInLogic):
    def on_start(self) -> None:
        self._latest: list[Any] = [_MISSING] * len(self.inlets)
        self._missing = len(self.inlets)
        self._ending = False  # an input has completed whose element was in no result yet
        self._hopeless = False  # an input has completed without an element: there will be no result
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

    def after_complete(self, in_: Connection) -> None:
        if self._latest[in_.in_index] is _MISSING:
            self._hopeless = True
            self.on_pull(self.out)  # the elements that waited for this input are shown again, and are dropped

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
            return  # `on_push` is called again after the next `on_pull`
        if self._hopeless:
            in_.grab(out.asked)
            in_.want(max(self.share(), in_.due))
            return
        if self._missing:
            if latest[index] is not _MISSING:
                return  # the input's next element waits until all inputs have had one
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
        fn = self.stage.fn
        if fn is None:
            self.out.push(rows)
            return
        results: list[Any] = []
        row: tuple[Any, ...] = ()
        try:
            for row in rows:
                results.append(fn(*row))  # the results before an error are pushed
        except BaseException as error:
            blame(error, self.name, row, fn)
            raise
        finally:
            if results:
                self.out.push(results)


class UnzipWith(Junction[Element, Any]):
    """Split each element into n parts with a function, one part to each output.

    Emits when: all live outputs have demand and there is an element.   Backpressures when: any live output does.
    Completes when: upstream completes.           Cancels when: all outputs have cancelled.
    """

    handling = EXACT
    eager_cancel = False

    def __init__(self, fn: Callable[[Element], Any] | None, outputs: int = 2) -> None:
        self.shape = fan_out(at_least("UnzipWith", "outputs", outputs, 1))
        self.outputs = outputs
        self.fn = None if fn is None else plain_function("UnzipWith", fn)


class Unzip(UnzipWith[tuple[Any, ...]]):
    """Split tuples of n, one member to each output. See UnzipWith."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__(None, outputs)


@logic_of(UnzipWith)
class _UnzipLogic(FanOutLogic):
    def on_pull(self, out: Connection) -> None:
        self.after_cancel()

    def after_cancel(self) -> None:
        wanted = self._least()
        if wanted:
            self.in_.want(max(wanted, self.in_.due))

    def _least(self) -> int:
        return min((out.asked for out in self.live if out.cause is None), default=0)

    def on_push(self, in_: Connection) -> None:
        rows: list[Any] = []
        fn = self.stage.fn
        element: Any = None
        try:
            for element in in_.grab(self._least()):
                row = element if fn is None else fn(element)
                if len(row) != len(self.outlets):
                    raise BuildError(f"{self.name} has {len(self.outlets)} outputs, got {len(row)} parts")
                rows.append(row)
        except BaseException as error:
            blame(error, self.name, element, fn)
            raise
        finally:
            if rows:
                for out, column in zip(self.outlets, zip(*rows, strict=True), strict=True):
                    out.push(list(column))
        self.after_cancel()
