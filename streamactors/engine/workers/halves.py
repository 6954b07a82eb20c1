"""The two halves of a boundary to a worker process, in this process: what they send goes through the worker (`remote_island.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.actors.workers.chunks import chunk_of
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.actors.workers.job import CannotGo, job_of, pickled
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.graph import StageNode
from streamactors.engine.boundary import BoundaryIn, BoundaryInLogic, BoundaryOut
from streamactors.engine.fusing.loop import Op
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Handling, Mark
from streamactors.engine.stage import NOT_USED
from streamactors.engine.user_code import user_line
from streamactors.engine.workers.encoding_out import EncodingOutLogic
from streamactors.engine.workers.remote_island import RemoteIsland
from streamactors.errors import BuildError
from streamactors.tracing import switch

_RUN_STAGES: Final = "streamactors.engine.materializing.child_island:run_stages"


class WorkerOut(BoundaryOut):
    """The half before the worker process. `members` are the stages that run there, `buffer` bounds the elements on the way to them."""

    def __init__(self, members: list[StageNode], handling: Handling, buffer: int | None) -> None:
        self.members = members
        self.handling = handling
        self.buffer = buffer
        self.inside = ", ".join(node.label for node in members)
        self.name = f"worker process: {self.inside}"

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        remote = RemoteIsland(self._job(), self.inside, self.buffer, self._no_restart(), self.handling.exact)
        return WorkerOutLogic(remote), NOT_USED

    def _job(self) -> bytes:
        try:
            return job_of(_RUN_STAGES, [(node.stage, node.attributes) for node in self.members], self.inside)
        except CannotGo as error:
            for label, part, fn in _parts(self.members):
                try:
                    pickled(part)
                except CannotGo as reason:
                    line = user_line(Exception(), fn) if fn is not None else ""
                    where = f" (its function is at {line})" if line else ""
                    raise BuildError(f"stage '{label}' cannot be sent to a worker process: {reason}{where}") from error
            raise

    def _no_restart(self) -> str:
        """Return why these stages cannot continue in a new process; empty if they can."""
        for node in self.members:
            if not node.stage.handling.passes:
                return f"no mark passes stage '{node.label}'"
            if node.stage.handling.remembers:
                return f"stage '{node.label}' remembers earlier elements, and its memory is lost"
        return ""


def _parts(members: list[StageNode]) -> Iterator[tuple[str, Any, Callable[..., Any] | None]]:
    """Yield name, what is sent and user function of each operator."""
    for node in members:
        ops: tuple[Op, ...] = getattr(node.stage, "ops", ())
        for op in ops:
            yield op.attributes.name or op.label, op, op.fn
        if not ops:
            yield node.label, (node.stage, node.attributes), getattr(node.stage, "fn", None)


class WorkerIn(BoundaryIn):
    """The half downstream of the worker process."""

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return WorkerInLogic(self.buffer), NOT_USED


class WorkerOutLogic(EncodingOutLogic):
    """Sends encoded chunks to the worker."""

    def __init__(self, remote: RemoteIsland) -> None:
        super().__init__()
        self.remote = remote

    def connected(self, in_half: BoundaryInLogic) -> None:
        assert isinstance(in_half, WorkerInLogic)
        in_half.remote = self.remote
        self._credit = self.remote.connect(self, in_half)

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Call a handler on this island. Any thread."""
        self.interpreter.post(self, handler, argument)

    def on_start(self) -> None:
        run = self.interpreter.island.run
        self.remote.start(run.system, run.marks_active)
        super().on_start()

    def send_batch(self, chunk: list[Any], mark: Mark | None) -> None:
        spans = switch.installed
        if spans is not None and isinstance(mark, dict):
            context = spans.told_current()
            if context is not None:
                self.remote.send_trace(context)
        super().send_batch(chunk, mark)

    def send_encoded(self, buffers: list[Buffer], count: int, mark: Mark | None) -> None:
        self.remote.send_chunk(buffers, count, mark)

    @property
    def refused_elements(self) -> tuple[str, str]:
        producer = getattr(self.inlets[0].producer, "name", "the stage before it")
        return f"elements of stage '{producer}'", "enter"

    def send_mark(self, mark: Mark) -> None:
        self.remote.send_mark(mark)

    def send_end(self) -> None:
        self.remote.send_end()

    def send_failure(self, error: BaseException) -> None:
        self.remote.send_failure(error)

    def on_stop(self) -> None:
        self.remote.half_stopped()
        super().on_stop()

    def snapshot_state(self) -> str:
        return f"{super().snapshot_state()}, {self.remote.state}"


class WorkerInLogic(BoundaryInLogic):
    """Decodes what comes from the worker, and holds it until downstream asks."""

    remote: RemoteIsland

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Call a handler on this island. Any thread."""
        self.interpreter.post(self, handler, argument)

    def on_results(self, results: tuple[Frame | None, int, list[Mark]]) -> None:
        """A chunk, of which the first elements may be left out, and the marks after it."""
        frame, skip, marks = results
        chunk = None if frame is None else chunk_of(frame)
        if chunk is not None and skip:
            chunk = chunk[skip:]
        self.on_batch((chunk, marks[0] if marks else None))
        for mark in marks[1:]:
            self.on_batch((None, mark))

    def send_credits(self, n: int) -> None:
        self.remote.grant(n)

    def send_cancel(self, cause: BaseException) -> None:
        self.remote.cancel(cause)

    def on_stop(self) -> None:
        self.remote.half_stopped()
