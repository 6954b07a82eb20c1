"""EncodingOutLogic: the sending half of a boundary to another process. The worker's side and the parent's send the frame each in its own way."""

from __future__ import annotations

from typing import Any

from streamactors.actors.workers.chunks import encode, pieces
from streamactors.actors.workers.frames import Buffer
from streamactors.codec import CodecError
from streamactors.engine.boundary import BoundaryOutLogic
from streamactors.engine.marks.marks import Mark
from streamactors.engine.workers.wire import encodable_prefix, refused


class EncodingOutLogic(BoundaryOutLogic):
    """Sends chunks as bytes, in pieces of a bounded size. Elements before one that cannot be encoded are still sent."""

    def send_batch(self, chunk: list[Any], mark: Mark | None) -> None:
        *before, last = pieces(chunk)
        for piece in before:
            self._send_piece(piece, None)
        self._send_piece(last, mark)

    def _send_piece(self, chunk: list[Any], mark: Mark | None) -> None:
        try:
            buffers = encode(chunk)
        except CodecError as error:
            before = encodable_prefix(chunk)
            if before:
                self.send_encoded(encode(before), len(before), None)
            raise refused(error, *self.refused_elements) from None
        self.send_encoded(buffers, len(chunk), mark)

    def send_encoded(self, buffers: list[Buffer], count: int, mark: Mark | None) -> None:
        """Send `count` encoded elements and the mark after them."""
        raise NotImplementedError

    @property
    def refused_elements(self) -> tuple[str, str]:
        """What cannot be encoded, and whether it was to "enter" or to "leave" the worker process; for errors."""
        raise NotImplementedError
