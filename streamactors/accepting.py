"""Accepting connections in a process that has no descriptor left.

The connection that cannot be accepted waits in the backlog, and wakes whoever accepts at once: without a pause this uses a core."""

from __future__ import annotations

import errno
from typing import Final

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The numbers of errors that pass by when descriptors or memory become free."""
ACCEPT_AGAIN_S: Final = 0.5
"""The pause before accepting is tried again."""
CANNOT_ACCEPT: Final = "%s: cannot accept: %s; raise the limit of open files (ulimit -n)"
"""What the log says then: who accepts, and the error."""
