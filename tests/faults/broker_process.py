"""A broker in a process of its own that can be killed, paused and started again on the same port and data."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import ReservedPorts


class BrokerProcess:
    """Real processes, real signals. `kill` is kill -9: nothing is flushed, and no client or broker is notified."""

    def __init__(self, data: Path, config: Mapping[str, str | int | bool] | None = None) -> None:
        self._ports = ReservedPorts()
        self.port = self._ports.reserve()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.data = data
        self._config = dict(config or {})
        self._cluster: Cluster | None = None
        self.kills = 0

    def start(self) -> None:
        self._cluster = Cluster(
            process=True, data=self.data, listen=self.bootstrap_servers, config=self._config
        ).start()

    def stop(self) -> None:
        """Stop in order."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def kill(self) -> None:
        assert self._cluster is not None
        os.kill(self._cluster.pid, signal.SIGKILL)
        self.kills += 1
        self.stop()

    def pause(self) -> None:
        """Returns when every thread has stopped."""
        assert self._cluster is not None
        self._cluster._running.pause()

    def resume(self) -> None:
        assert self._cluster is not None
        self._cluster._running.resume()

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._ports.close()
