"""The other instances of a group: their addresses, which are part of their client ids, and how they are asked.

Owner: QueryableStore and the command line. The calls wait for answers."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from streamactors.errors import StoreNotReady
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ADDRESS_MARK, ConsumerSettings
from streamactors.kafka.state.queries.query_wire import (
    CONTENT,
    LAG,
    MOST_ANSWER_BYTES,
    BadRequest,
    pack_request,
    unpack_entries,
)
from streamactors.windows.state.reads import StoreEntry, StoreRequest

PATIENCE_S: Final = 5.0
_KNOWN_FOR_S: Final = 2.0


class PeerFailed(StoreNotReady):
    """Another instance did not answer, or refused the request."""


class Peers:
    """The other instances of the group of `settings` that advertise an address."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._addresses: list[str] = []
        self._known_until = 0.0
        self._lock = threading.Lock()

    def addresses(self) -> list[str]:
        """Return the addresses of the other instances. Raises KafkaError."""
        with self._lock:
            if time.monotonic() < self._known_until:
                return self._addresses
            with Admin(self._settings) as admin:
                members = admin.describe_group(self._settings.group_id or "").members
            marked = (member.client_id.partition(ADDRESS_MARK) for member in members)
            found = {address for _, mark, address in marked if mark}
            self._addresses = sorted(found - {self._settings.state.advertise})
            self._known_until = time.monotonic() + _KNOWN_FOR_S
            return self._addresses

    def ask(self, store: str, request: StoreRequest, *, dirty: bool) -> list[StoreEntry]:
        """Return what all other instances have; a get ends with the first that has the key. Raises PeerFailed."""
        found: list[StoreEntry] = []
        try:
            addresses = self.addresses()
        except KafkaError as error:
            raise PeerFailed(
                f"store {store}: the other instances of {self._settings.group_id} are not known: {error}"
            ) from error
        token = self._settings.state.token or ""
        for address in addresses:
            found += ask(address, token, store, request, dirty=dirty, local=True)
            if found and request.kind == "get":
                break
        return found


def ask(
    address: str, token: str, store: str, request: StoreRequest, *, dirty: bool, local: bool, stale: bool = False
) -> list[StoreEntry]:
    """As `ask_with_lag`, without the lag."""
    return ask_with_lag(address, token, store, request, dirty=dirty, local=local, stale=stale)[0]


def ask_with_lag(
    address: str, token: str, store: str, request: StoreRequest, *, dirty: bool, local: bool, stale: bool
) -> tuple[list[StoreEntry], int | None]:
    """Return the entries that the instance at `address` has; with `local` without asking others, with `stale` also in its copies of them, and
    then the lag of the copy that lacks the most entries. Raises PeerFailed."""
    url = f"http://{address}/stores/{urllib.parse.quote(store, safe='')}"
    body = pack_request(request, dirty=dirty, local=local, stale=stale)
    asked = urllib.request.Request(
        url, body, {"Authorization": f"Bearer {token}", "Content-Type": CONTENT, "Accept": CONTENT}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=PATIENCE_S) as answer:
            data, lag = answer.read(MOST_ANSWER_BYTES + 1), answer.headers.get(LAG)
    except urllib.error.HTTPError as error:
        says = error.read(2_000).decode(errors="replace").strip()
        raise PeerFailed(f"store {store} at {address}: {says or error.reason} ({error.code})") from error
    except OSError as error:
        why = getattr(error, "reason", error)  # a URLError wraps what the socket said
        silent = isinstance(why, TimeoutError)
        told = f"no answer in {PATIENCE_S:g} s" if silent else str(getattr(why, "strerror", None) or why).lower()
        raise PeerFailed(
            f"store {store}: nothing answers at {address} ({told}); is the instance running, with State(advertise=…)?"
        ) from error
    if len(data) > MOST_ANSWER_BYTES:
        raise PeerFailed(
            f"store {store} at {address}: the answer has more than {MOST_ANSWER_BYTES >> 20} MB; ask for a smaller range"
        )
    try:
        return unpack_entries(data), None if lag is None else int(lag)
    except BadRequest as error:
        raise PeerFailed(f"store {store} at {address}: {error}") from error
