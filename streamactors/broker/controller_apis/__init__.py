"""The requests that only a listener for controllers serves: those of the cluster's brokers, and votes and fetches of other controllers.

One file per API, as in `apis/`; a handler turns the request into a command of `controller/`, or hands it to the quorum. The administrative requests of `apis/` are served
there too (`SHARED`), directly or inside an Envelope."""

from typing import Final

SHARED: Final = frozenset(
    {17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 43, 44, 45, 46, 49, 50, 51, 55, 57, 64, 80, 81}
)
