"""What a transactional run does when it was fenced: `ProducerSettings.on_fenced`."""

from __future__ import annotations

from typing import Final

from streamactors.errors import BuildError
from streamactors.stages.restart_settings import RestartSettings

RESTARTS: Final = RestartSettings("1s", "30s", max_restarts=10, max_restarts_within="1m")
"""The back-off of "restart". A run that has lasted a minute counts as the first one again."""

OnFenced = str | RestartSettings


def checked_on_fenced(value: object) -> None:
    """Raise BuildError unless `value` says what a fenced run does."""
    if value not in ("restart", "fail") and not isinstance(value, RestartSettings):
        raise BuildError(f"ProducerSettings: on_fenced is {value!r}; give 'restart', 'fail' or RestartSettings")


def restarts_of(on_fenced: OnFenced) -> RestartSettings | None:
    """Return the back-off of the restarts; None: a fenced run fails."""
    if isinstance(on_fenced, RestartSettings):
        return on_fenced
    return RESTARTS if on_fenced == "restart" else None
