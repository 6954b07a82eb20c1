"""Problems: what a share consumer says in the log: each sentence at most once a minute, so that a broker that refuses does not fill the log."""

from __future__ import annotations

import logging
import time
from typing import Final

_log = logging.getLogger("streamactors.kafka")
AGAIN_AFTER_S: Final = 60.0
REMEMBERED: Final = 100


class Problems:
    """The sentences of one share group's member, as warnings. Any thread; its owner's lock is enough."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._said: dict[str, float] = {}

    def tell(self, sentence: str) -> None:
        """Log a sentence unless it was logged within the last minute."""
        now = time.monotonic()
        last = self._said.get(sentence)
        if last is not None and now - last < AGAIN_AFTER_S:
            return
        if len(self._said) >= REMEMBERED:
            self._said.clear()
        self._said[sentence] = now
        _log.warning("share group %s: %s", self._group, sentence)
