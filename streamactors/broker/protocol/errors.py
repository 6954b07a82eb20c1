"""What a codec raises."""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class MalformedMessage(StreamActorsError, ValueError):
    """Bytes from the wire that are not the message they claim to be. The connection they came on cannot be trusted any
    more."""


class UnsupportedVersion(StreamActorsError, ValueError):
    """An API key or version that this broker does not speak."""


class MessageError(StreamActorsError, TypeError):
    """A message that cannot be encoded: a field that no version has, or a value of the wrong type. Always a bug of the
    caller."""
