"""Windows killed with -9 in the middle and started again: the final rows are those of a run without the kill."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from pathlib import Path

import pytest
from confluent_kafka import Producer as BareProducer

from tests.bare_clients import IN_ORDER

ROWS, PARTITIONS, KEYS = 6_000, 2, 5
CHUNKS = 30  # at least: so many polls give all rows


def rows(seed):
    """(partition, key, timestamp) in a shuffled but mostly rising order, some of them late."""
    dice = random.Random(seed)
    for i in range(ROWS):
        late = 3_000 if dice.random() < 0.05 else dice.randrange(400)
        yield i % PARTITIONS, f"k{dice.randrange(KEYS)}", max(0, 1_000_000 + i * 10 - late)


def finals(given):
    """What must come out, per partition: a plain loop over the rows."""
    open_windows, time, out = [Counter() for _ in range(PARTITIONS)], [0] * PARTITIONS, []
    for partition, key, timestamp in given:
        time[partition] = max(time[partition], timestamp)
        start = timestamp // 1_000 * 1_000
        if start + 1_500 > time[partition]:
            open_windows[partition][key, start] += 1
    for partition, windows in enumerate(open_windows):
        out += [(partition, f"{key}@{start}", count) for (key, start), count in windows.items()]
    return sorted(out)


def topics_of(source):
    return source.split(",")


def in_turn(seed, topics):
    """The rows in the order in which a task of so many topics takes them: of the heads the oldest, the first topic's among equals."""
    for number in range(PARTITIONS):
        queues = [deque() for _ in range(topics)]
        for i, row in enumerate(row for row in rows(seed) if row[0] == number):
            queues[i % topics].append(row)
        while any(queues):
            yield min((queue for queue in queues if queue), key=lambda queue: queue[0][2]).popleft()


def produce(cluster, source, seed):
    topics = topics_of(source)
    for topic in topics:
        cluster.create_topic(topic, partitions=PARTITIONS)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
    counts = [0] * PARTITIONS
    for partition, key, timestamp in rows(seed):
        topic = topics[counts[partition] % len(topics)]
        counts[partition] += 1
        producer.produce(topic, b"x", key, partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def crash_and_restart(cluster, read_all, seed, kills, topics=1, state=None):
    source, target = ",".join(f"rows-{seed}-{topics}-{i}" for i in range(topics)), f"finals-{seed}-{topics}"
    produce(cluster, source, seed)
    cluster.create_topic(target, partitions=PARTITIONS)
    dice = random.Random(seed)
    command = [sys.executable, str(Path(__file__).with_name("_windows_app.py"))]
    command += [
        cluster.bootstrap_servers,
        f"windows-{seed}-{topics}",
        source,
        target,
        str(ROWS // CHUNKS),
        *([str(state)] if state else []),
    ]
    history: list[str] = []  # of the processes, for whoever looks for the cause of a failure
    killed, ended = 0, False
    while not ended:
        # so many chunks in, then at any moment of the next tenth of a second: before, in and after commits. The first process waits to be killed:
        # on a busy machine it was through with all chunks before this one had read of them
        lifetime = dice.randrange(1, CHUNKS if not killed else 40) if killed < kills else 1 << 30
        hold = {"HOLD": str(lifetime)} if not killed else {}
        was_killed, count, line = False, 0, ""
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | hold
            )
            for count, line in enumerate(process.stdout, 1):
                ended = line.strip() == "end"
                if count == lifetime:
                    try:
                        process.wait(dice.random() / 10)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        was_killed = True
                        killed += 1
                    break
            process.stdin.close()
            process.stdout.close()
            code = exit_code(process)
            errors.seek(0)
            said = (
                f"{count} lines, the last one {line.strip()!r}, then {'killed' if was_killed else f'exit code {code}'}"
            )
            history.append(f"process {len(history) + 1}: {said}\n{errors.read()[-4_000:]}")
        assert was_killed or code == 0, "\n".join(history)
    assert killed >= 1
    found = sorted((m.partition(), m.key().decode(), int(m.value())) for m in read_all(target, PARTITIONS))
    wanted = finals(in_turn(seed, topics))
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    assert not missing | more, f"missing: {sorted(missing)}\nmore: {sorted(more.elements())}\n" + "\n".join(history)


def exit_code(process):
    """Return the exit code; of a process that does not end the stacks of its threads are in its errors."""
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler
        return process.wait(60)


@pytest.mark.slow
def test_windows_on_disk_killed_in_the_middle_give_each_final_row_once_and_right(cluster, read_all, tmp_path):
    crash_and_restart(cluster, read_all, seed=101, kills=2, state=tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(102, 112))
def test_windows_on_disk_killed_again_and_again(cluster, read_all, tmp_path, seed):
    crash_and_restart(cluster, read_all, seed, kills=10, state=tmp_path)


def test_windows_killed_in_the_middle_give_each_final_row_once_and_right(cluster, read_all):
    crash_and_restart(cluster, read_all, seed=1, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 22))
def test_windows_killed_again_and_again(cluster, read_all, seed):
    crash_and_restart(cluster, read_all, seed, kills=4)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_T_4_windows_of_two_topics_killed_again_and_again(cluster, read_all, seed):
    """What is late depends on the order in which the rows of both are taken, which no kill may change."""
    crash_and_restart(cluster, read_all, seed, kills=3, topics=2)
