"""Records what 0.1.0 leaves on disk: a broker's folder with records, a transaction, a group and changelogs, and the state of a table and of windows.

Run it with the code of 0.1.0, in an empty folder, then pack `broker` and `state`:

    git archive 4415523fee285fcc124eff37890a9aeccad3a967 streamactors | tar x -C OLD
    PYTHONPATH=OLD python record.py && tar czf 0.1.0.tar.gz broker state"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

from streamactors import Keep, Sink, Source
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.admin import Admin
from streamactors.windows import State, TimeWindows

HOUR = 3_600_000


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = f"127.0.0.1:{port}"
    settings = ["--set", "offsets.topic.num.partitions=1", "--set", "transaction.state.log.num.partitions=1"]
    command = [sys.executable, "-m", "streamactors", "broker", "--data", "broker", "--listen", servers, *settings]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert broker.stdout is not None
    broker.stdout.readline()
    admin = Admin(ProducerSettings(servers))
    for topic in ("words", "word-counts", "visits"):
        admin.create(topic, 1)
    words = [ProducerRecord("words", b"1", word.encode()) for word in ("ada", "bob", "ada")]
    visits = [
        ProducerRecord("visits", b"1", key, timestamp=at) for key, at in ((b"ada", 10), (b"ada", 20), (b"bob", 30))
    ]
    Source.from_iterable([*words, *visits]).run_with(Producer.plain_sink(ProducerSettings(servers))).result(30)

    counting = ConsumerSettings(servers, "counting", "earliest", state=State.on_disk("state/words", cache="16MB"))
    control = (
        Consumer.records(counting, Subscriptions.topics("words"), key="string", until="end")
        .group_by_key()
        .count(name="words")
        .to_stream()
        .map(lambda count: ProducerRecord("word-counts", str(count.value), count.key))
        .to_mat(Transactional.sink(ProducerSettings(servers, transactional_id="counting")), Keep.left)
        .run()
    )
    control.is_shutdown.result(60)
    hourly = ConsumerSettings(servers, "hourly", "earliest", state=State.on_disk("state/visits", cache="16MB"))
    control = (
        Consumer.records(hourly, Subscriptions.topics("visits"), key="string", until="end")
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_grace("1h"))
        .count(name="visits")
        .to_stream()
        .to_mat(Sink.ignore(), Keep.left)
        .run()
    )
    control.is_shutdown.result(60)
    reading = ConsumerSettings(servers, "reading", "earliest")
    control = (
        Consumer.source(reading, Subscriptions.topics("words"), until="end").to_mat(Sink.ignore(), Keep.left).run()
    )
    control.is_shutdown.result(60)
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(30) == 0


if __name__ == "__main__":
    main()
