"""How many random histories a run plays beside Apache Kafka: STREAMACTORS_HISTORIES, or each file's own number."""

from __future__ import annotations

import os


def histories(usual: int) -> int:
    """Return the number of histories of a file."""
    return int(os.environ.get("STREAMACTORS_HISTORIES", usual))


def within_s(usual: int) -> int:
    """Return the time limit of a file that plays its histories in one go."""
    return 600 + 20 * histories(usual)
