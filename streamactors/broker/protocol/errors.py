"""The errors of codecs."""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class MalformedMessage(StreamActorsError, ValueError):
    """The received bytes are not a message of their kind. The connection must be closed."""


class UnsupportedVersion(StreamActorsError, ValueError):
    """An API key or version without a schema."""


class MessageError(StreamActorsError, TypeError):
    """A message that cannot be encoded: an unknown field, or a value of the wrong type. A bug of the caller."""
