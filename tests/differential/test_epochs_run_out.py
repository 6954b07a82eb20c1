"""The last epochs of a producer id in version 2, on Apache Kafka and on this broker: the same answers, the same records, and a new producer id.

A producer cannot use up its epochs in a test: both brokers find transactional ids near the end in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import BatchBuilder
from streamactors.broker.transaction.transaction import Transaction, TransactionState
from streamactors.broker.transaction.transaction_record import encode_transaction_key, encode_transaction_value
from tests.broker.wire import WireClient
from tests.differential import transaction_histories as histories
from tests.differential.apache_kafka import broker as apache
from tests.differential.coordinator_steps import Script, Step, Until, play
from tests.differential.group_requests import find, topic_of
from tests.differential.test_coordinator_logs import TRANSACTIONS, Serve, ours, theirs
from tests.differential.transaction_script import END, INIT, PRODUCE, TOPIC, end, init, of, produce

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

LAST = 32_766
IDS = {"ended": (900_001, LAST - 1), "aborted": (900_002, LAST), "fenced": (900_003, LAST), "claimed": (900_004, LAST)}
PREPARE: Script = [
    topic_of(TOPIC, histories.PARTITIONS),
    find("transactions", 3, 1, "x"),
    init("ready", "x"),
    produce("to make the log", "x", of("init ready"), version=12),
    end("of what made the log", "x", of("init ready"), commits=True, version=5),
    histories.settled("x", "x"),
]


def of_end(step: str) -> Any:
    return lambda seen: (seen[step].producer_id, seen[step].producer_epoch)


def script() -> list[Step | Until]:
    ended, aborted, fenced, claimed = IDS.values()
    last = (ended[0], LAST)
    steps: list[Step | Until] = [
        produce("ended 1", "ended", ended, version=12),
        end("ended 1", "ended", ended, commits=True, version=5),
        histories.settled("ended", "ended 1"),
        produce("ended 2", "ended", last, version=12),
        end("ended 2", "ended", last, commits=True, version=5),
        histories.settled("ended", "ended 2"),
        end("ended 2 again", "ended", last, commits=True, version=5),
        end("ended 2 the other way", "ended", last, commits=False, version=5),
        produce("ended 3", "ended", of_end("end ended 2"), version=12),
        produce("a zombie of the old id", "ended", last, 1, version=12),
        end("ended 2 after the next began", "ended", last, commits=True, version=5),
        end("ended 3", "ended", of_end("end ended 2"), commits=False, version=5),
        histories.settled("ended", "ended 3"),
        end("aborted", "aborted", aborted, commits=False, version=5),
        histories.settled("aborted", "aborted"),
        end("aborted again", "aborted", aborted, commits=False, version=5),
        produce("after the abort", "aborted", of_end("end aborted"), version=12),
        produce("fenced", "fenced", fenced, partition=1, version=12),
        init("the one that fences", "fenced"),
        histories.settled("fenced", "fenced"),
        end("fenced", "fenced", fenced, commits=True, version=5),
        init("claimed", "claimed", claimed),
        init("claimed again", "claimed", claimed),
        end("claimed", "claimed", of("init claimed"), commits=False, version=5),
        histories.settled("claimed", "claimed"),
    ]
    return [each._replace(again_while=histories.BUSY) if isinstance(each, Step) else each for each in steps]


def append_ids(folder: Path) -> None:
    """Append the transactional ids to the coordinator's log, as if the broker had written them and crashed."""
    log = folder / TRANSACTIONS / f"{0:020}.log"
    with WithoutIndexes(folder / TRANSACTIONS):
        builder = BatchBuilder()
        for name, (producer_id, epoch) in IDS.items():
            txn = Transaction(
                name,
                producer_id,
                epoch,
                previous_producer_id=producer_id,
                timeout_ms=900_000,
                state=TransactionState.COMPLETE_COMMIT,
                started_at_ms=1_795_000_000_000,
                updated_at_ms=1_795_000_000_000,
                client_version=2,
            )
            builder.append(encode_transaction_key(name), encode_transaction_value(txn, 2), 1_795_000_000_000)
        last = list(iter_batches(log.read_bytes()))[-1]
        with log.open("r+b") as file:
            file.truncate(last.position + last.size)  # without what was allocated in advance
            file.seek(0, 2)
            file.write(builder.build(base_offset=last.next_offset, leader_epoch=0))


class WithoutIndexes:
    """The folder of a partition without what the broker must make again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        for pattern in ("*.index", "*.timeindex", "*.snapshot", "*.txnindex"):
            for path in self._folder.glob(pattern):
                path.unlink()

    def __exit__(self, *error: object) -> None:
        for checkpoint in [*self._folder.parent.glob("*-checkpoint"), *self._folder.parent.glob("*cleanshutdown")]:
            checkpoint.unlink()


def played(folder: Path, serve: Serve) -> tuple[dict[str, Any], dict[str, Any]]:
    with serve(folder) as address:
        play(address, PREPARE)
    append_ids(folder)
    with serve(folder) as address:
        steps = script()
        seen = play(address, steps)
        names = {producer_id: name for name, (producer_id, _) in IDS.items()}
        for step in steps:
            answer = seen.get(step.name) if isinstance(step, Step) and step.key in (INIT, END) else None
            if getattr(answer, "producer_id", -1) >= 0:
                names.setdefault(answer.producer_id, f"<new {len(names) - len(IDS)}>")
        outcomes = {
            step.name: histories.outcome(step, seen, names)
            for step in steps
            if isinstance(step, Step) and step.key in (INIT, END, PRODUCE)
        }
        host, port = address.split(":")
        with WireClient(host, int(port)) as client:
            kept = histories.states(client)
        return outcomes, {name: histories.comparable(kept[name], names) for name in IDS}


def test_a_new_producer_id_follows_as_at_apache_kafka(tmp_path: Path) -> None:
    their_answers, their_records = played(tmp_path / "theirs", theirs)
    our_answers, our_records = played(tmp_path / "ours", ours)
    assert our_answers == their_answers
    assert our_records == their_records
    assert our_answers["end ended 2"] == ([0], ("<new 0>", 0), None)
    assert our_answers["end ended 2 again"] == ([0], ("<new 0>", 0), None)
