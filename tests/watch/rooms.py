"""What any test of a room may log at WARNING or above, because the machine decides when, and not the test.

A test runs beside others on a busy machine: a thread that gets no turn for some seconds misses its heartbeat, its session or its share of a
rebalance, and the product says so. What a test provokes belongs to its own marker `expects_log`, not here."""

from __future__ import annotations

from typing import Final

from tests.watch.logs import Expected

ANYWHERE: Final = {
    "threads are busy or blocked and cells wait": "a pool takes threads that the machine does not run for blocked ones",
    "a coroutine blocked the asyncio loop of the stream": "a coroutine that gets no turn blocks its loop",
}
ACTORS: Final = {"dead letter ": "a message is on its way to an actor that ends"}
NODES: Final = {
    "is fenced: its process has ended": "a node was killed, perhaps by an earlier test of its cluster; the controller hears of it when it can",
    "is fenced: no heartbeat within the session timeout": "the sessions of nodes under test are two seconds long",
    "the controller has fenced this broker": "the broker's side of that",
    "no controller has accepted a heartbeat of this broker": "a leader gives up its lease",
    "this node no longer leads the metadata log": "an election, after the leader was late",
    "a change of sessions or leaders cannot be written": "the controller has just changed",
    "no-op records are no longer written": "the controller has just changed",
    "the leaderships of this broker were not moved": "the controller has just changed",
    "the controller does not take the data folders of": "a broker that starts is registered again while its request is on its way",
    "no controller answers yet": "the nodes of a cluster start one after the other",
    "refuses this node: ": "a node that starts or ends resets connections",
    "its TLS handshake was not complete in time": "a slow client",
    "the last batch is incomplete": "a node was killed while it wrote",
    "cannot flush to disk: No such file or directory": "a test that cuts the power takes the folder away while a flush is on its way",
    ": writing it failed: NO": "a coordinator that leads no longer, or has too few replicas",
    "transactional id %s of %s: writing %s failed: %s": "a coordinator that leads no longer, or has too few replicas",
}
CLIENTS: Final = {
    "Configuration property `": "librdkafka's warning of a setting comes once per process, in the first test that has the setting",
    "no partitions after": "a rebalance waits for a member that is late",
    "this consumer has no partitions": "the other members are slow",
    "revoked with records, or results of its windows, still in flight": "a slow stream has not finished when its partitions move",
    "%s: lost %s": "a member was silent for its session",
    "%s: %s": "librdkafka tries a request again, or a transaction was lost with its partitions",
    "no broker at": "the broker was silent for five seconds",
    "the broker at": "it is back",
    "are not known, so the lag of a partition": "the broker did not answer in time, or has ended",
    "looking for the end of its topics failed and is retried": "the broker did not answer in time",
    "the state could not be read, and this is tried again": "a leader changes",
    "is not longer than session.timeout.ms": "windows of tests close soon after their rows",
    "standby copies could not be brought up to date": "a leader changes",
    "upkeep of the topic failed and is retried": "the broker did not answer in time",
    "waits for its end: other instances": "the other instances are slow",
    "a commit has waited for": "a sink is slow",
    "ms after the stream was stopped": "a slow stream has not finished at its end",
    "its state was not closed": "the disk is slow",
    " of the run in ": "a member was late, and its transactional run begins again",
}
LATE: Final = {"dropped as late": "laws are about rows of any time, and new examples of Hypothesis may be late"}
PAGES: Final = {
    "NameError: name": "a stream of a page that runs on when the page has ended finds its names gone",
    "Spark has not started after": "the JVM is slow",
}

SPARK: Final = {
    "Spark has not started after": "the JVM is slow",
    "did not start within": "Spark's Python process is slow, and the query is started again",
    "dropped as late": "many tests are about late rows, and Spark decides in which process and second a task drops them",
}
DEMO: Final = {
    "still running when the process ended": "Ctrl-C ends the demo in any moment, and the warning is what a user then reads; the next run reads again"
}

ROOMS: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "": (ANYWHERE,),
    "tests/actors/": (ACTORS,),
    "tests/stages/test_actor_": (ACTORS,),
    "tests/broker/": (NODES,),
    "tests/cli/": (NODES, CLIENTS),
    "tests/compat/": (NODES, CLIENTS),
    "tests/demo/": (NODES, CLIENTS, LATE, SPARK, DEMO),
    "tests/deploy/": (NODES, CLIENTS),
    "tests/differential/": (NODES, CLIENTS, LATE, SPARK),
    "tests/docs/": (NODES, CLIENTS, LATE, PAGES),
    "tests/examples/": (NODES, CLIENTS, LATE),
    "tests/faults/": (NODES, CLIENTS),
    "tests/kafka/": (NODES, CLIENTS, LATE),
    "tests/simulation/": (NODES,),
    "tests/spark/": (NODES, CLIENTS, SPARK),
    "tests/testing/": (NODES, CLIENTS),
    "tests/upgrades/": (NODES, CLIENTS, SPARK),
    "tests/watch/test_idle": (NODES, CLIENTS, LATE, PAGES),
    "tests/watch/test_tenfold": (NODES, CLIENTS, SPARK),
    "tests/windows/": (LATE,),
}
"""The kinds of lines by room: the prefix of a test's id."""


def room_of_processes(test: str) -> str:
    """Return the room of a test whose brokers and clients have threads and processes of their own; empty for other tests."""
    return next((room for room, kinds in ROOMS.items() if NODES in kinds and test.startswith(room)), "")


def expected_in(test: str) -> Expected:
    """Return what a test may log because of its room."""
    kinds = [kind for prefix, kinds in ROOMS.items() if test.startswith(prefix) for kind in kinds]
    return Expected(tuple(part for kind in kinds for part in kind))
