"""Prometheus' /metrics of a running graph, and its probes /live and /ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from streamactors.broker.http.endpoint import HttpEndpoint, Page, Status
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.cli.graphs.restores import running_restores
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.kafka.controls.supervised import SupervisedRun

TIMERS_S: Final = 5.0
"""A process whose timers do not run within this time is not alive."""
SNAPSHOT_S: Final = 1.0

Readiness = Callable[[], tuple[bool, Sequence[str]]]


class MetricsNotServed(StreamActorsError):
    """The address of the metrics cannot be bound."""

    exit_code = 2


def live(running: SupervisedRun) -> Status:
    """Return whether the timers of the run's actor system run."""
    ran = threading.Event()
    timer = running.system.timers.call_later(0, ran.set)
    if ran.wait(TIMERS_S):
        return Status(True, "live")
    timer.cancel()
    return Status(False, "not live", (f"the timers of the actor system have not run for {TIMERS_S:g} s",))


def readiness(running: SupervisedRun) -> tuple[bool, list[str]]:
    """Return whether the run takes records, and the reasons why not: it drains, a consumer has no assignment, or state is being restored."""
    if running.stopping:
        return False, ["draining"]
    missing = []
    for control in running.controls:
        try:
            joined = control.snapshot(SNAPSHOT_S)["joined"]
        except TimeoutError:
            joined = False
        if not joined and not control.is_shutdown.done():
            missing.append(f"{control.graph}: the consumer of group {control.group or 'none'} has no assignment")
    missing += [
        f"restoring {each.what}: {each.entries} of at most {each.offsets} entries" for each in running_restores()
    ]
    return not missing, missing


@contextmanager
def serve_metrics(
    endpoint: MetricsEndpoint,
    registry: CollectorRegistry,
    is_live: Callable[[], Status],
    is_ready: Readiness,
) -> Iterator[int]:
    """Serve while the block runs; give the port. Raises MetricsNotServed."""

    def ready() -> Status:
        found, details = is_ready()
        return Status(found, "ready" if found else "not ready", details)

    try:
        served = HttpEndpoint(
            endpoint,
            {"/metrics": lambda: Page(generate_latest(registry), CONTENT_TYPE_LATEST)},
            {"/live": is_live, "/ready": ready},
        )
    except OSError as error:
        where = f"{endpoint.host}:{endpoint.port}"
        raise MetricsNotServed(f"cannot serve metrics at {where}: {error.strerror}; choose another port") from None
    try:
        yield served.port
    finally:
        served.close()
