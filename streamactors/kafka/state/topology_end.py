"""Finds out when a bounded topology with repartition topics has processed everything.

The topics of the topology end where they ended at the start. Its repartition topics grow while it runs, so their end is known only when the group
has committed all rows of the other topics, then all rows of the repartition topics, and these have not grown meanwhile. Positions are
committed with the rows that they gave, or after them, so no further row is on its way then.

Owner: the run; on a thread of its own, because it waits for the broker's answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from streamactors.kafka.client.admin import LATEST, Admin
from streamactors.kafka.client.offsets.unread import any_record
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.repartition import ends_of
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import log_limited

_log: Final = logging.getLogger("streamactors.kafka")
CHECK_S: Final = 0.1


class TopologyEnd:
    """Calls `then` once, when the group has processed `outer` to their current ends, and everything that followed in `inner`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        outer: Iterable[TopicPartition],
        inner: Iterable[TopicPartition],
        then: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._group = settings.group_id or ""
        self._admin = Admin(settings)
        self._ends = ends_of(settings, list(outer))
        self._inner = list(inner)
        self._then = then
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"end of {self._group}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """The run is over. Any thread; idempotent."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(CHECK_S):
            try:
                if self._reached():
                    self._then()
                    break
            except Exception as error:  # noqa: BLE001  # the broker may be away: retry later
                log_limited(
                    _log, logging.WARNING, (self._group, type(error)),
                    "%s: looking for the end of its topics failed and is retried: %s", self._group, error,
                )  # fmt: skip
        del self._admin  # on this thread: closing it waits

    def _reached(self) -> bool:
        if not self._done(self._ends):
            return False
        before = self._ends_of_inner()
        return self._done(before) and self._ends_of_inner() == before

    def _ends_of_inner(self) -> dict[TopicPartition, int]:
        """Open transactions count: a transaction that was committed just now may still lack its marker."""
        return self._admin.offsets(dict.fromkeys(self._inner, LATEST))

    def _done(self, ends: Mapping[TopicPartition, int]) -> bool:
        """True if the group has committed all records before these ends."""
        committed = self._admin.committed(self._group, ends)
        gaps = {key: at for key, end in ends.items() if (at := max(0, committed.get(key, 0))) < end}
        return not gaps or not any_record(self._settings, gaps, ends, lambda: not self._over.is_set())
