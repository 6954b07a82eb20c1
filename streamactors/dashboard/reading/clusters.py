"""Which clusters the running graphs use: from the settings of their consumers and producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamactors.engine.island.run import Run
from streamactors.kafka.settings import ClientSettings


def clusters_of(runs: Iterable[Run]) -> Iterator[Mapping[str, Any]]:
    """Yield the properties of a client of each cluster, with `bootstrap.servers`: the address, TLS and login of the first stage that uses it."""
    known = set()
    for run in runs:
        for interpreter in run.interpreters():
            for logic in list(interpreter.logics):
                settings = getattr(logic, "kafka_settings", None)
                if isinstance(settings, ClientSettings) and settings.bootstrap_servers not in known:
                    known.add(settings.bootstrap_servers)
                    yield settings.address()
