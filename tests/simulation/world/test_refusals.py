"""What no simulation can repeat is refused by name, with the line that asked and the way out. Outside the world it works."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.kafka.client import connection
from streamactors.simulation.world.errors import NotSimulated
from streamactors.simulation.world.simulated import SimulatedWorld


class Kept:
    """References that are not names of a module."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def by_default(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        sleep(seconds)

    def by_name(self, seconds: float, *, sleep: Callable[[float], None] = time.sleep) -> None:
        sleep(seconds)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a socket": (lambda: socket.create_connection(("127.0.0.1", 9)), r"socket.*replace the client by"),
    "a server": (lambda: socket.socket().bind(("127.0.0.1", 0)), r"socket.*replace the client by"),
    "a host": (lambda: socket.getaddrinfo("localhost", 80), r"look-up of a host"),
    "a process": (lambda: subprocess.run([sys.executable, "-c", ""], check=True), r"subprocess\.Popen.*no process"),
    "Spark": (
        lambda: subprocess.Popen(["/opt/spark/bin/spark-submit", "pyspark-shell"]),
        "Spark is not simulated.*sink",
    ),
    "a shell": (lambda: os.system("true"), r"os\.system.*no process"),
    "a fork": (lambda: os.fork(), r"os\.fork.*no process"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_by_name_with_the_line_and_the_way_out(what: str) -> None:
    ask, message = REFUSED[what]
    with pytest.raises(NotSimulated, match=message) as refused:
        SimulatedWorld(0).run(ask)
    assert f"asked for at {__file__}:" in str(refused.value)


def test_worker_processes_are_refused_with_the_way_out() -> None:
    def main() -> None:
        with ActorSystem("app") as system:
            Source.range(0, 3).map_parallel(abs, 2).run_with(Sink.to_list(), system).result()

    with pytest.raises(NotSimulated, match=r"worker processes \(map_parallel.*are not simulated.*by map_async"):
        SimulatedWorld(0).run(main)


def test_a_sleep_that_a_class_or_a_default_keeps_is_virtual() -> None:
    def main() -> float:
        Kept.sleep(1_000)
        Kept().by_default(1_000)
        Kept().by_name(1_000)
        return time.monotonic()

    assert SimulatedWorld(0).run(main) == 3_000
    assert Kept.sleep is time.sleep
    assert Kept.by_default.__defaults__ == (time.sleep,)


def test_a_refusal_ends_the_run_also_when_a_thread_catches_it() -> None:
    def tries() -> None:
        with contextlib.suppress(Exception):
            socket.socket()

    def main() -> None:
        threading.Thread(target=tries).start()
        time.sleep(1)

    with pytest.raises(NotSimulated, match="socket"):
        SimulatedWorld(0).run(main)


def test_a_real_client_of_kafka_is_refused_and_a_world_puts_it_back() -> None:
    settings = ConsumerSettings("127.0.0.1:9", group_id="g")

    def main() -> None:
        with ActorSystem("app") as system:
            Consumer.source(settings, Subscriptions.topics("t")).run_with(Sink.ignore(), system).result()

    with pytest.raises(
        NotSimulated, match=r"Consumer: .* no connection to a real Kafka; use the clients of a SimulatedCluster"
    ):
        SimulatedWorld(0).run(main)
    assert connection.ck.Consumer.__module__ == "cimpl"


def test_outside_a_world_nothing_is_refused() -> None:
    SimulatedWorld(0).run(lambda: None)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
    subprocess.run([sys.executable, "-c", ""], check=True)
    Kept.sleep(0)
