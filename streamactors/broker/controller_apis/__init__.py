"""The requests that only a listener for controllers serves: what other brokers of the cluster ask the controller.

One file per API, as in `apis/`; a handler turns the request into a command of `controller/`. The administrative requests of `apis/` are served
there too (`SHARED`), directly or inside an Envelope."""

from typing import Final

SHARED: Final = frozenset(
    {17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 43, 44, 45, 46, 49, 50, 51, 55, 57, 64, 80, 81}
)
