"""Two members of a group that join streams and a table on disk, killed with -9 under load: the results are the model's, each once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ClientSettings
from streamactors.windows.state.disk.folder import tasks_of
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from tests.bare_clients import IN_ORDER

PARTITIONS, KEYS, CITIES, REACH_MS = 2, 40, 7, 400
OUTPUTS = ("known", "paid", "cities")


class Member:
    """One member, as a process that can be killed and started again."""

    def __init__(self, command, power=None):
        """`power`: called before each start, returns variables of the environment; its `cut` is called when the member is dead."""
        self._command, self._power = command, power
        self.start()

    def start(self):
        environment = None if self._power is None else {**os.environ, **self._power.on()}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=environment)
        self.told = threading.Semaphore(0)
        self._listener = threading.Thread(target=self._listen, args=(self._process, self.told), daemon=True)
        self._listener.start()

    @staticmethod
    def _listen(process, told):
        for _ in process.stdout:
            told.release()

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._listener.join()  # closing the pipe under a thread that reads it raised ValueError there
        self._process.stdout.close()
        if self._power is not None:
            self._power.cut()


class Load:
    """Batches of rows. The people of a batch come first, and each batch is later than the one before: so the time of the rows alone decides
    what an order meets. `model` has what must come out."""

    def __init__(self, cluster, group, seed):
        self.group = group
        self.dice = random.Random(seed)
        self.producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
        self.city = {}
        self.counts = Counter()
        self.orders, self.payments, self.known = defaultdict(list), defaultdict(list), defaultdict(list)
        self.written = Counter()

    def batch(self, number, size):
        dice, time = self.dice, (number + 1) * 100_000  # a producer takes 0 for "now"
        for i in range(size // 4):
            key = self._key()
            self.city[key] = None if dice.random() < 0.1 else f"c{dice.randrange(CITIES)}"
            self._write("people", key, self.city[key], time + i)
        self.producer.flush(30)
        for i in range(size):
            key, at = self._key(), time + 50_000 + 10 * i
            order = f"o{number}-{i}"
            self.known[key].append([order, self.city.get(key)])
            self.counts[self.city.get(key) or "nowhere"] += 1
            self.orders[key].append((order, at))
            self._write("orders", key, order, at)
            if dice.random() < 0.6:
                key, at = self._key(), at + dice.randrange(-600, 600)
                self.payments[key].append((f"p{number}-{i}", at))
                self._write("payments", key, f"p{number}-{i}", at)
        self.producer.flush(30)

    def _key(self):
        number = self.dice.randrange(KEYS)
        return f"k{number}-{number % PARTITIONS}"

    def _write(self, topic, key, value, timestamp):
        data = None if value is None else json.dumps(value).encode()
        self.written[topic] += 1
        self.producer.produce(f"{self.group}-{topic}", data, key, partition=int(key[-1]), timestamp=timestamp)

    def paid(self):
        return sorted(
            (key, order, payment)
            for key, orders in self.orders.items()
            for order, ordered_at in orders
            for payment, paid_at in self.payments[key]
            if abs(ordered_at - paid_at) <= REACH_MS
        )


def all_done(admin, load, wait_for):
    """Wait until the group has committed all rows, those of the repartition topic among them."""

    def committed(topic):
        return sum(max(0, at) for at in admin.committed(load.group, admin.partitions_of(topic)).values())

    for topic, count in load.written.items():
        wait_for(lambda topic=topic, count=count: committed(f"{load.group}-{topic}") >= count, timeout=90)


def check_disks(folder, changelogs):
    """Every store on disk becomes what its changelog is when the entries from the offset on that the store names are read again: an earlier
    offset may stand beside later entries. Returns the number of entries."""
    compared, memory = 0, Memory(64 << 20)
    for _, partition, path in tasks_of(folder) if folder.exists() else ():
        rocks = Rocks(path, memory)
        try:
            disk = TaskDisk(rocks, ())
            for store in disk.stores:
                offset, whole, found = disk.offset(store), {}, dict(disk.scan(store))
                if not offset:
                    continue  # killed before the first cut was on disk: the next start empties the store
                for message in changelogs[store]:
                    if message.partition() == partition:
                        whole[message.key()] = message.value()
                        if message.offset() >= offset:
                            found[message.key()] = message.value()
                wanted, restored = ({k: v for k, v in each.items() if v is not None} for each in (whole, found))
                assert restored == wanted, f"{path}: {store} at {offset}"
                compared += len(wanted)
        finally:
            rocks.close()
    return compared


def killed_and_restarted(cluster, read_all, wait_for, tmp_path, seed, kills, size, standbys=0, power=None):
    """`power`: makes the power supply of a member from the folder of its state."""
    group = f"joining-{seed}-{standbys}"
    for topic in ("orders", "payments", "people", *OUTPUTS):
        # the rows are of 1970: after 300 s the broker's retention deleted the results, and a slow run waited for them in vain
        cluster.create_topic(f"{group}-{topic}", PARTITIONS, {"retention.ms": "-1"})
    load, dice = Load(cluster, group, seed), random.Random(seed)
    command = [sys.executable, str(Path(__file__).with_name("_joins_app.py")), cluster.bootstrap_servers, group]
    places = [tmp_path / f"m{n}" for n in range(2)]
    members = [
        Member([*command, place.name, str(place), str(standbys)], None if power is None else power(place))
        for place in places
    ]
    try:
        for number in range(kills):
            load.batch(number, size)
            victim = dice.choice(members)
            victim.told.acquire(timeout=dice.random() * 4)  # at work, or a moment without it
            victim.kill()
            victim.start()
        load.batch(kills, size)
        all_done(Admin(ClientSettings(cluster.bootstrap_servers)), load, wait_for)
        wait_for(lambda: len(read_all(f"{group}-cities", PARTITIONS)) >= sum(load.counts.values()), timeout=90)
    finally:
        for member in members:
            member.kill()
    known, cities = defaultdict(list), defaultdict(list)
    for message in read_all(f"{group}-known", PARTITIONS):
        known[message.key().decode()].append(json.loads(message.value()))
    assert known == load.known
    paid = [(m.key().decode(), *json.loads(m.value())) for m in read_all(f"{group}-paid", PARTITIONS)]
    assert sorted(paid) == load.paid()
    for message in read_all(f"{group}-cities", PARTITIONS):
        cities[message.key().decode()].append(json.loads(message.value()))
    assert cities == {city: list(range(1, count + 1)) for city, count in load.counts.items()}
    stores = ("people", "paid-left", "paid-right", "cities")
    changelogs = {store: read_all(f"{group}-{store}-changelog", PARTITIONS) for store in stores}
    # Once this found 0 entries. Two members had taken all rows in a second, and no disk named an offset: the offset was asked of the broker after each
    # commit, and answers that came behind the next cut were dropped. With answers that took 1 s it was red too (tried once). Offsets are counted now.
    compared = sum(check_disks(tmp_path / f"m{n}" / group, changelogs) for n in range(2))
    # A cut of the power at the end leaves what was synced. A database is synced when a file is full, or when it is closed, for example at a
    # rebalance: on a busy machine no database may have been closed since the cut before, and no disk names an offset.
    assert compared > KEYS or power is not None


@pytest.mark.slow
def test_two_members_killed_in_the_middle_join_each_row_once(cluster, read_all, wait_for, tmp_path):
    killed_and_restarted(cluster, read_all, wait_for, tmp_path, seed=1, kills=1, size=400)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_two_members_killed_ten_times_join_each_row_once(cluster, read_all, wait_for, tmp_path, seed):
    killed_and_restarted(cluster, read_all, wait_for, tmp_path, seed, kills=10, size=500)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_two_members_with_standbys_killed_ten_times_join_each_row_once(cluster, read_all, wait_for, tmp_path, seed):
    killed_and_restarted(cluster, read_all, wait_for, tmp_path, seed, kills=10, size=500, standbys=1)
