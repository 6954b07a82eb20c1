"""Accepting connections in a process that has no descriptor left.

A connection that cannot be accepted stays in the backlog and wakes the accepting thread again at once. Without a pause the thread would use a
whole core."""

from __future__ import annotations

import errno
import logging
from typing import Final

from streamactors.log_limit import log_limited

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The numbers of errors that pass by when descriptors or memory become free."""
ACCEPT_AGAIN_S: Final = 0.5
"""The pause before accepting is tried again."""
CANNOT_ACCEPT: Final = "%s: cannot accept: %s; raise the limit of open files (ulimit -n)"
"""What the log says then: who accepts, and the error."""


def cannot_accept(log: logging.Logger, who: str, error: OSError) -> None:
    """Log, at most once a second, that `who` cannot accept."""
    log_limited(log, logging.WARNING, (who, error.errno), CANNOT_ACCEPT, who, error)
