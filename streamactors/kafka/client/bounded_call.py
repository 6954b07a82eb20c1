"""A time limit for a call of librdkafka that ignores its own.

`send_offsets_to_transaction` never returns if the group's coordinator leaves the cluster during the call (librdkafka 2.16; its issues 5511 and
5456). The call runs on another thread. If it does not return in time, its caller waits no longer.

A process that was frozen for longer than that is not too late: the time is counted in slices, and a freeze lasts one of them. The answer that came
meanwhile is read in the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from math import ceil
from typing import Any, Final

from streamactors.kafka.client.diagnosis.delivery_errors import NotInTime

GRACE_S: Final = 5.0
"""How much longer than its own timeout such a call may take."""
SLICE_S: Final = 0.5


def bounded(call: Callable[[], Any], timeout_s: float, who: str) -> Any:
    """Return the result of a call, or raise what it raises; NotInTime if it does not return in `timeout_s` + GRACE_S."""
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001  # goes to the caller
            result.set_exception(error)

    threading.Thread(target=run, name=f"{who}: offsets", daemon=True).start()
    for _ in range(ceil((timeout_s + GRACE_S) / SLICE_S)):
        if wait([result], SLICE_S).done:
            return result.result()
    raise NotInTime(
        f"{who}: librdkafka has not taken the read positions in {timeout_s + GRACE_S:g} s: it waits for a coordinator of the group that has "
        "left the cluster; the transaction is aborted. Start the run again, or put it into a RestartSource"
    )
