"""Asks the controllers which cluster they are of, so that a new data folder joins it.

Owner: the server, at the start, before the data folder is opened. Blocks."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.folders.meta_properties import FILE_NAME
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.wire_request import call
from streamactors.errors import StreamActorsError

_log = logging.getLogger("streamactors.broker.membership")

DESCRIBE_CLUSTER: Final = (60, 1)
CONTROLLERS: Final = 2  # the type of endpoints that are asked for
PAUSE_S: Final = 0.1
QUIET_S: Final = 3.0  # controllers that start at the same time need no warning


def cluster_of(
    controllers: Sequence[Address], folder: Path, within_s: float, credentials: ListenerCredentials | None = None
) -> str | None:
    """Return the id of the controllers' cluster for a new data folder; None for a folder that knows its cluster already.

    Raises BrokerStartError if no controller answers in time."""
    if (folder / FILE_NAME).exists():
        return None
    deadline = time.monotonic() + within_s
    warned = False
    while True:
        why: object = None
        for each in controllers:
            try:
                answer = call(
                    address_text(*each), DESCRIBE_CLUSTER, {"endpoint_type": CONTROLLERS}, credentials=credentials
                )
                if not answer.error_code and answer.cluster_id:
                    return str(answer.cluster_id)
                why = answer.error_message or answer.error_code
            except (OSError, ValueError, StreamActorsError) as error:  # the last: the login is refused
                why = error
        if time.monotonic() > deadline:
            at = ",".join(address_text(*each) for each in controllers)
            raise BrokerStartError(
                f"no controller at {at} answers ({why}); start them, or correct controller.quorum.bootstrap.servers"
            )
        if not warned and time.monotonic() > deadline - within_s + QUIET_S:
            warned = True
            _log.warning("no controller answers yet (%s); asking again for %.0f s", why, within_s)
        time.sleep(PAUSE_S)
