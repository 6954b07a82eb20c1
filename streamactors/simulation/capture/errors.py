"""The errors of captures and replays.

CaptureError
├── CapsuleError       a file is no capsule, is damaged, or is larger than its reader allows
└── RedactionFailed    the function that hides values raised, or returned what cannot be written"""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class CaptureError(StreamActorsError):
    """A group cannot be captured, or a graph cannot be replayed on a capsule."""

    exit_code = 1


class CapsuleError(CaptureError):
    """A file is no capsule, is damaged, comes from a newer version, or is larger than its reader allows."""

    exit_code = 2


class RedactionFailed(CaptureError):
    """The function of `--redact` raised, or returned what cannot be written. The message has no value of the record, and nothing was written."""
