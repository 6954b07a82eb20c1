"""Errors of state on disk."""

from __future__ import annotations

from streamactors.errors import StreamError


class StateError(StreamError):
    """State on disk that cannot be used."""


class StateFolderInUse(StateError):
    """Another run has locked the state folder."""


class ForeignState(StateError):
    """The state folder was written by another group, another topology or a newer version."""


class StateDamaged(StateError):
    """The files of a state folder cannot be read."""


class StateDiskFull(StateError):
    """The disk or the quota of the state folder is full."""
