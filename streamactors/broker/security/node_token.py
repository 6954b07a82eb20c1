"""The token with which a node logs in to the other nodes by OAUTHBEARER.

Owner: a `ListenerCredentials` of this node. `renew` may wait for the provider, so a connection calls it on a thread of its own before it connects; the login
then takes the token without waiting. All connections share a token for 80 % of its lifetime, as Apache Kafka's clients do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from streamactors.broker.security.client_login import BearerToken
from streamactors.broker.security.oauth_tokens import NoToken, life_of
from streamactors.errors import StreamActorsError

_log = logging.getLogger("streamactors.broker.security")

_USED_PART: Final = 0.8
_UNKNOWN_LIFE_S: Final = 60.0


class NodeToken:
    """The token that all connections of this node share. `fetch` gets a new one: it may block, and raises StreamActorsError. `now_s` is the time
    in seconds since 1970."""

    def __init__(self, fetch: Callable[[], str], now_s: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._now_s = now_s
        self._fetching = threading.Lock()
        self._token: BearerToken | None = None
        self._renew_at_s = 0.0
        self._told = ""

    def renew(self) -> None:
        """Get a new token if there is none, or if the present one is old. Blocks. Raises StreamActorsError; the log has each reason once."""
        with self._fetching:
            if self._token is not None and self._now_s() < self._renew_at_s:
                return
            try:
                text = self._fetch()
            except StreamActorsError as error:
                if str(error) != self._told:
                    self._told = str(error)
                    _log.warning("this node cannot log in to other nodes: %s", error)
                raise
            self._told = ""
            now_s = self._now_s()
            life = life_of(text)
            # the token's own start counts, so that a copy in a file is read again before it expires
            self._renew_at_s = now_s + _UNKNOWN_LIFE_S if life is None else life[0] + (life[1] - life[0]) * _USED_PART
            self._token = BearerToken(text)

    def current(self) -> BearerToken:
        """Return the token of the last `renew`. Never blocks. Raises NoToken if there was none."""
        token = self._token
        if token is None:
            raise NoToken("this node has no token yet")
        return token
