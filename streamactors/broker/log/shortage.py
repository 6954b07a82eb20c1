"""Temporary errors of the operating system: no descriptor is free, or the disk is full.

Owner: the logs, which keep their state after such an error, so that the call can be repeated. Every other error is one of the disk itself."""

from __future__ import annotations

import errno
from typing import Final

FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
PASSING: Final = FULL_ERRORS | NO_DESCRIPTOR
NAMES_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, None})
"""Errors that say nothing about the disk."""


def passes(error: OSError) -> bool:
    """Whether the call that raised this error can succeed later, without a repair."""
    return error.errno in PASSING
