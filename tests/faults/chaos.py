"""`make chaos`: three brokers under load and trouble, round after round. The history checker judges each, and the replicas of the topic must be equal.

    python -m tests.faults.chaos --minutes 30
    python -m tests.faults.chaos --seed 7 --rounds 1
    python -m tests.faults.chaos --bug leader-alone     (a planted bug; the run ends when the history shows it)

Each round is a fresh cluster with idempotent and transactional producers, members of each kind of group (classic, consumer, share and streams),
transactions of both versions, consumers that assign to themselves, and four processes of this package that work exactly once: two copy the topic
from Transactional.source to Transactional.sink, two count its records in windows whose state is in a changelog. In rounds with an odd seed the broker
assigns their partitions. A third one counts with its state on disk; once a round it is killed, and starts beside a broker that is cut off. A round
prints its seed; what a seed decides is the order of the troubles, not the timing of processes."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode
from tests.faults.cluster_nemesis import Trouble
from tests.faults.connector_worker import WINDOW_MS, counted
from tests.faults.kinds.all_kinds import CONFIG as KINDS_CONFIG
from tests.faults.kinds.all_kinds import AllKinds
from tests.faults.replica_logs import differences, metadata_differences
from tests.faults.workload import QUIET, RESETS, TOPIC, Run
from tests.history import Partition, check

ROOT = Path(__file__).resolve().parents[2]
RED_ROUNDS = ROOT / "out" / "chaos"
PARTITIONS, COPY, COUNTS, LATE = 3, "copy", "counts", "late"
CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.min.session.timeout.ms": 1_000,
    **KINDS_CONFIG,
    "auto.create.topics.enable": False,  # a client of an earlier round may meet this cluster at the port that it knows
}


class ClusterRun(Run):
    """A workload whose partitions have several leaders."""

    def _stable_ends(self) -> dict[Partition, int]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})
        give_up = time.monotonic() + 90
        found: list[dict[Partition, int]] = []
        while time.monotonic() < give_up:
            try:
                found = [
                    ends(admin, TOPIC, isolation)
                    for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
                ]
            except KafkaException:
                continue
            if found[0] == found[1]:
                return found[0]
            self.finish.wait(0.05)
        raise AssertionError(f"a transaction is open although all its producers have stopped: {found}")


def ends(admin: AdminClient, topic: str, isolation: IsolationLevel) -> dict[Partition, int]:
    """Return where the partitions of a topic end for readers of this isolation level."""
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(PARTITIONS)}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=5)
    return {(topic, place.partition): future.result(10).offset for place, future in answers.items()}


Row = tuple[bytes, int]
"""The value and the timestamp (ms) of a record."""


def rows_of(servers: str, topic: str) -> dict[int, list[Row]]:
    """Return the committed rows of each partition, in order."""
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    wanted = ends(admin, topic, IsolationLevel.READ_COMMITTED)
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True, **QUIET}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found: dict[int, list[Row]] = defaultdict(list)
    left = {n for (_, n), end in wanted.items() if end}
    give_up = time.monotonic() + 60
    while left and time.monotonic() < give_up:
        for message in consumer.consume(500, 0.2):
            partition = message.partition()
            if message.error() is None:
                found[partition].append((message.value(), message.timestamp()[1]))
            elif message.error().name() == "_PARTITION_EOF" and message.offset() >= wanted[topic, partition]:
                left.discard(partition)
    consumer.close()
    assert not left, f"{topic}: partitions {left} were not read to their ends"
    return {n: found[n] for n in range(PARTITIONS)}


def copied(rows: list[Row]) -> list[bytes]:
    """Return what the copy of these rows must be."""
    return [value for value, _ in rows]


def counts(rows: list[Row]) -> list[bytes]:
    """Return what the counts of these rows must be: each row gives the new count of its window."""
    seen: Counter[tuple[int, int]] = Counter()
    found = []
    for value, time_ms in rows:
        window = (int(value) % 7, time_ms // WINDOW_MS * WINDOW_MS)
        seen[window] += 1
        found.append(counted(*window, seen[window]))
    return found


def needed_a_service_manager(told: Path) -> list[str]:
    """Return the failures of a worker's runs that the runs themselves should have repaired: their partitions were taken away."""
    lines = told.read_text(errors="replace").splitlines()
    return [f"{told.name}: {each}" for each in lines if each.startswith("failed") and "was revoked while" in each]


class Progress:
    """Whether something that a test waits for still gets on: beside the load of other tests it may take minutes."""

    STUCK_S = 90.0

    def __init__(self) -> None:
        self._last: object = None
        self._give_up = 0.0

    def goes_on(self, state: object) -> bool:
        """Return False if the state has been the same for too long."""
        if state != self._last:
            self._last, self._give_up = state, time.monotonic() + self.STUCK_S
        return time.monotonic() < self._give_up


class Latecomer:
    """A process that counts alone, with its state on disk. In each round it is killed, and starts again beside a broker that is cut off, and knows only
    that one. The broker must not let it believe that its state is newer than the topics."""

    THROWN_AWAY = ("the topic was created again", "the state is restored")

    def __init__(self, folder: Path, servers: str) -> None:
        self.told = folder / "count-late.log"
        self._servers = servers
        self._places = {
            **os.environ,
            "WORKER_SOURCE": TOPIC,
            "WORKER_TARGET": LATE,
            "WORKER_GROUP": LATE,
            "WORKER_STATE": str(folder / "late"),
        }
        self.process = self._started(servers)

    def _started(self, servers: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.connector_worker", servers, "count-late", "count", "range"]
        with self.told.open("ab") as told:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.STDOUT, env=self._places
            )

    def kill(self) -> None:
        """End the process; its state stays on disk."""
        self.process.kill()
        self.process.wait()

    def start_at(self, server: str) -> None:
        """Start again. `server`: the only broker that the process knows."""
        self.process = self._started(server)

    def judge(self) -> list[str]:
        """Wait until everything was counted; return what the process did wrong: wrong counts, and good state that it threw away."""
        lines = self.told.read_text(errors="replace").splitlines()
        wrong = [f"{self.told.name}: {each}" for each in lines if any(words in each for words in self.THROWN_AWAY)]
        differ = differences_of(self._servers, LATE, counts)
        progress = Progress()
        while differ and progress.goes_on(differ):
            time.sleep(0.5)
            differ = differences_of(self._servers, LATE, counts)
        return wrong + differ + needed_a_service_manager(self.told)


def differences_of(servers: str, target: str, model: Callable[[list[Row]], list[bytes]]) -> list[str]:
    """Return the partitions of a topic whose rows are not the model's.

    Results are read before their input. A write whose producer gave up may become visible now; read the other way round, its result would be one too
    many."""
    written = {n: [value for value, _ in rows] for n, rows in rows_of(servers, target).items()}
    wanted = {n: model(rows) for n, rows in rows_of(servers, TOPIC).items()}
    return [f"{target}, partition {n}: {_difference(wanted[n], written[n])}" for n in wanted if wanted[n] != written[n]]


class Workers:
    """Two processes of this package's own streams that live through the whole round.

    `way` and `strategy`: see connector_worker. `model`: returns what they must write for the rows of a partition."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        way: str,
        target: str,
        model: Callable[[list[Row]], list[bytes]],
        strategy: str = "range",
    ) -> None:
        self._servers = servers
        self._told = [folder / f"{way}-{n}.log" for n in range(2)]
        self._target = target
        self._model = model
        command = [sys.executable, "-m", "tests.faults.connector_worker", servers]
        places = {**os.environ, "WORKER_SOURCE": TOPIC, "WORKER_TARGET": target}
        self._processes = [
            subprocess.Popen(
                [*command, f"{way}-{n}", way, strategy],
                stdin=subprocess.PIPE,
                stdout=told.open("wb"),
                stderr=subprocess.STDOUT,
                env=places,
            )
            for n, told in enumerate(self._told)
        ]

    def judge(self) -> list[str]:
        """Wait until everything was written; return the partitions whose rows are not the model's, and the processes that are gone.

        Results are read before their input. A write whose producer gave up may become visible now; read the other way round, its result would
        be one too many."""
        progress = Progress()
        while True:
            written = {n: [value for value, _ in rows] for n, rows in rows_of(self._servers, self._target).items()}
            wanted = {n: self._model(rows) for n, rows in rows_of(self._servers, TOPIC).items()}
            differ = [
                f"{self._target}, partition {n}: {_difference(wanted[n], written[n])}"
                for n in wanted
                if wanted[n] != written[n]
            ]
            ahead = any(len(written[n]) > len(wanted[n]) for n in wanted)
            if not differ:
                return self._ended()
            if ahead or not progress.goes_on(differ):
                return differ + self._ended() + self._last_words()
            time.sleep(0.5)

    def _ended(self) -> list[str]:
        """Return the processes that are gone, such as by a fault of a library: one of two can do the work of both."""
        codes = [(told.name, process.poll()) for told, process in zip(self._told, self._processes, strict=True)]
        ended = [f"{name}: its process has ended with {code}" for name, code in codes if code is not None]
        return ended + [each for told in self._told for each in needed_a_service_manager(told)]

    def _last_words(self) -> list[str]:
        """Return the end of what each process has said, and where each of its threads stands."""
        for process in self._processes:
            process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return [f"{told.name}: {told.read_text(errors='replace')[-6_000:]}" for told in self._told]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _difference(wanted: list[bytes], written: list[bytes]) -> str:
    times = Counter(written)
    twice = [value for value, n in times.items() if n > 1]
    missing = [value for value in wanted if value not in times]
    model = set(wanted)
    unknown = [value for value in times if value not in model]
    return f"{len(wanted)} wanted, {len(written)} written, missing {missing[:5]}, twice {twice[:5]}, in no model {unknown[:40]}"


def round_of(seed: int, seconds: float, *, at_work: bool = True, controllers: int = 1) -> tuple[list[str], str]:
    """Return (what is wrong, what happened) of one round."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(brokers=3, controllers=controllers, data=folder, config=CONFIG) as cluster,
    ):
        for topic in (TOPIC, COPY, COUNTS, LATE):
            try:
                cluster.create_topic(topic, PARTITIONS)
            except (
                BrokerError
            ) as error:  # beside load: the request was forwarded, its answer was lost, and it was sent again
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        run = ClusterRun(cluster.bootstrap_servers, seed=seed, partitions=PARTITIONS)
        servers = cluster.bootstrap_servers
        latecomer = Latecomer(Path(folder), servers) if at_work else None
        bug = os.environ.get("CHAOS_BUG", "")
        trouble = Trouble(cluster, seed, several_controllers=controllers > 1, bug=bug, latecomer=latecomer)
        workers = []
        if at_work:
            logs = Path(folder)
            protocol = "consumer" if seed % 2 else "range"
            workers = [
                Workers(logs, servers, "copy", COPY, copied, protocol),
                Workers(logs, servers, "count", COUNTS, counts, protocol),
            ]
        try:
            kinds = AllKinds(run) if at_work else None
            more: dict[str, Any] = {}
            if kinds is not None:
                more = {"more_producers": kinds.producers(), "more_consumers": kinds.consumers()}
                more["drained"] = kinds.await_drained
            wrong = [str(anomaly) for anomaly in check(run.go(seconds, nemesis=trouble.nemesis, **more))]
            if kinds is not None:
                wrong += kinds.judge()
            for pair in workers if not wrong else []:
                wrong += pair.judge()
            if latecomer is not None:
                wrong += latecomer.judge()
            wrong += differences(Path(folder), TOPIC, PARTITIONS, nodes=3)
            if controllers == 3:
                wrong += metadata_differences(Path(folder), nodes=3)
        except (AssertionError, KafkaException) as error:  # a client that failed for good has seen something impossible
            wrong = [f"{type(error).__name__}: {error}"]
        finally:
            for pair in workers:
                pair.close()
            if latecomer is not None:
                latecomer.kill()
        if wrong and not os.environ.get("CHAOS_BUG"):
            with suppress(shutil.Error):  # the brokers are alive: what is gone when it is copied is not missed
                shutil.copytree(folder, RED_ROUNDS / str(seed), dirs_exist_ok=True)
            wrong.append(f"the data folders and what the processes said: {RED_ROUNDS / str(seed)}")
        return wrong, f"{run.acknowledged()} acknowledged; {kinds or 'no groups'}; {trouble}"


def main() -> int:
    """Run rounds; return the exit code: 0 if nothing was wrong, or if a planted bug was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=40.0, help="of a round")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the first round")
    parser.add_argument(
        "--controllers", type=int, default=3, help="1, or 3: then the cluster lives on without any one node"
    )
    parser.add_argument("--bug", default="")
    options = parser.parse_args()
    os.environ["CHAOS_BUG"] = options.bug
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests/faults/sabotage"), *([before] if before else [])])
    give_up = time.monotonic() + options.minutes * 60
    for number in range(options.rounds):
        seed = options.seed + number
        try:
            wrong, told = round_of(seed, options.seconds, at_work=not options.bug, controllers=options.controllers)
        except BrokerStartError as error:  # before the first trouble: a round that has not begun shows nothing
            print(f"{time.strftime('%H:%M:%S')} seed {seed}: the cluster did not start: {error}", flush=True)
            continue
        print(f"{time.strftime('%H:%M:%S')} seed {seed}: {told}", flush=True)
        for line in [*wrong[:10], *(RESETS if wrong else ())]:
            print(f"  {line}", flush=True)
        if wrong:
            print(f"{'found' if options.bug else 'WRONG'}: {len(wrong)} anomalies", flush=True)
            return 0 if options.bug else 1
        if time.monotonic() > give_up:
            break
    if options.bug:
        print(f"the planted bug {options.bug} was not found", flush=True)
    return 1 if options.bug else 0


if __name__ == "__main__":
    threading.current_thread().name = "chaos"
    sys.exit(main())
