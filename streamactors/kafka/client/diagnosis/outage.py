"""Outage: logs once that no broker answers, and once that one is back. librdkafka waits for a broker silently.

Owner: one client. A complaint of librdkafka begins an outage only if no sign of a broker follows it: connections are also closed when they
are idle, and one broker of several may be gone."""

from __future__ import annotations

from typing import Final

SAID_AFTER_S: Final = 5.0


class Outage:
    """Measures how long no broker has been reachable. Pure; times are seconds of one clock."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._reason = ""
        self._since: float | None = None  # the first complaint since a broker was seen
        self._said = False

    def complained(self, reason: str, now_s: float) -> None:
        """librdkafka has complained about a connection; an empty reason keeps the previous one."""
        self._reason = reason or self._reason
        if self._since is None:
            self._since = now_s

    def gone_s(self, now_s: float) -> float:
        """Return for how many seconds no broker has been seen; 0 while there is one."""
        return 0.0 if self._since is None else now_s - self._since

    @property
    def has_begun(self) -> bool:
        """True after a complaint; a sign of a broker ends the outage."""
        return self._since is not None

    def is_long(self, now_s: float) -> bool:
        """Whether the outage has been said, or is about to be."""
        return self._since is not None and self.gone_s(now_s) >= SAID_AFTER_S

    def nobody_waited(self) -> None:
        """No record has waited until now. What was not said yet is no outage: the connections of an idle client are closed."""
        if not self._said:
            self._since = None

    def look(self, *, seen: bool, now_s: float) -> str | None:
        """Return the line to log, now that a broker was seen or not."""
        if self._since is None:
            return None
        gone_s = self.gone_s(now_s)
        if seen:
            said, self._said, self._since = self._said, False, None
            return f"the broker at {self._servers} is back after {gone_s:.0f} s" if said else None
        if self._said or gone_s < SAID_AFTER_S:
            return None
        self._said = True
        return f"no broker at {self._servers} for {gone_s:.0f} s, waiting ({self._reason})"
