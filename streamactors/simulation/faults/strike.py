"""A fault that struck. Owner: the plan of a run."""

from __future__ import annotations

from typing import NamedTuple


class Strike(NamedTuple):
    """One fault at one moment.

    `id` is FAULT/ORDINAL, with the target between them if each target has its own opportunities; `target` an instance, a broker, a store or a topic; `at_ms` virtual
    milliseconds; `text` what happened, as a sentence."""

    id: str
    fault: str
    target: str
    at_ms: float
    text: str
