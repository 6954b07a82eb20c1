"""Answers of a lookup by key: at most `most` of them, each for a limited time.

Owner: LookupJoin. A key that the lookup does not know has an answer too, None. When the cache is full, the key that was used least recently
is forgotten. The caller passes the wall clock."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from streamactors.windows.operators.operator import Ident
from streamactors.windows.values import snapshot


class LookupCache:
    """`ttl_ms`: how long an answer is kept; `missing_ttl_ms`: how long an answer of None is kept. None: until the cache is full."""

    def __init__(self, most: int, ttl_ms: int | None, missing_ttl_ms: int | None) -> None:
        self._most = most
        self._ttl_ms = ttl_ms
        self._missing_ttl_ms = missing_ttl_ms
        self._answers: OrderedDict[Ident, tuple[Any, int | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, ident: Ident, now_ms: int) -> tuple[Any] | None:
        """Return the answer for a key, in a tuple; None if it must be asked for."""
        found = self._answers.get(ident)
        if found is None:
            return None
        answer, until_ms = found
        if until_ms is not None and now_ms >= until_ms:
            del self._answers[ident]
            return None
        self._answers.move_to_end(ident)
        return (answer,)

    def put(self, ident: Ident, answer: Any, now_ms: int) -> None:
        """Keep an answer that was asked for at `now_ms`."""
        ttl_ms = self._missing_ttl_ms if answer is None else self._ttl_ms
        if ttl_ms == 0 or self._most == 0:
            return
        self._answers[ident] = (snapshot(answer), None if ttl_ms is None else now_ms + ttl_ms)
        self._answers.move_to_end(ident)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
