"""The sinks beside the transactional ones of a run: a commit waits until they have done the rows before it.

A crash right after the commit would lose the rows that such a sink has not done. A sink that keeps a commit waiting for long is named in the log,
once per run.

Owner: the run's transaction; on the producer's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from streamactors.engine.marks.marks import PositionMark
from streamactors.engine.marks.progress import SinkProgress
from streamactors.kafka.client.producer import StreamProducer

_log = logging.getLogger("streamactors.kafka")

TOLD_AFTER_MS = 10_000.0
"""How long a commit waits for the other sinks until the log names them."""


class OtherSinks:
    """Waits for the sinks of the run that are outside the transaction."""

    def __init__(self, progress: SinkProgress) -> None:
        self._progress = progress
        self._timer: Any = None

    def wait(
        self,
        producer: StreamProducer,
        target: PositionMark,
        but: set[object],
        done: Callable[[], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        """Call `done` when no sink is behind `target`, without those named by `but`; `failed` with the error of one that has failed."""

        def counts(sink: object) -> bool:
            return sink not in but

        if self._timer is None:
            self._timer = producer.later(TOLD_AFTER_MS, lambda: self._tell(producer, target, counts))
        self._progress.when_done(target, done, among=counts, failed=failed)

    def go_on(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None and self._timer.cancel():
            self._timer = None

    def _tell(self, producer: StreamProducer, target: PositionMark, counts: Callable[[object], bool]) -> None:
        names = sorted({str(getattr(sink, "name", sink)) for sink in self._progress.behind(target, counts)})
        if names:
            _log.warning(
                "transactional id %s: a commit has waited for %g s, because %s of the same run has not done the rows before the commit. "
                "The transactional sink takes no rows meanwhile. If a stage before the other sink keeps rows, as grouped(n) does until it "
                "has n, use grouped_within(n, time), or give that sink a graph and a group of its own",
                producer.settings.transactional_id,
                TOLD_AFTER_MS / 1_000,
                " and ".join(names),
            )
