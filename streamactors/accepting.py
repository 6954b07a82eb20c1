"""Accepting connections while `accept` fails.

A connection that cannot be accepted stays in the backlog and wakes the accepting thread again at once. Without a pause the thread would use a
whole core."""

from __future__ import annotations

import errno
import logging
from typing import Final, Protocol

from streamactors.log_limit import log_limited

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The numbers of errors that pass by when descriptors or memory become free."""
ACCEPT_AGAIN_S: Final = 0.5
"""The pause before accepting is tried again."""
_OF_ONE_CONNECTION: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOPROTOOPT,
        errno.ENOTCONN,
        errno.EOPNOTSUPP,
        errno.EPROTO,
    }
)
"""The numbers of errors that Linux passes on from the network of a connection which it removes from the backlog."""
_MORE_FILES: Final = "raise the limit of open files (ulimit -n)"


class Log(Protocol):
    """Writes a line to a log, or leaves it out: `LogLimit.log`."""

    def __call__(self, logger: logging.Logger, level: int, cause: object, message: str, *values: object) -> None: ...


def is_of_one_connection(error: OSError) -> bool:
    """Whether only one connection could not be accepted, which has ended: the next one can be."""
    return error.errno in _OF_ONE_CONNECTION


def pause_after(logger: logging.Logger, who: str, error: OSError, log: Log = log_limited) -> float:
    """Return for how many seconds `who` should not accept after an error of `accept`; 0 if only one connection has ended.

    The reason for a pause is logged, at most once a second."""
    if is_of_one_connection(error):
        return 0.0
    way_out = _MORE_FILES if error.errno in OUT_OF_FILES else f"tried again every {ACCEPT_AGAIN_S:g} s"
    log(logger, logging.WARNING, (who, error.errno), "%s: cannot accept: %s; %s", who, error, way_out)
    return ACCEPT_AGAIN_S
