"""Event time and state on the page, against what plain Python computes from the same rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Sink
from streamactors.broker import Cluster
from streamactors.dashboard.reading.windows import WindowsReader
from streamactors.dashboard.serving import serve
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.kafka.state.changelogs.changelog_topics import RestoreProgress
from streamactors.kafka.state.changelogs.watching import RESTORES
from streamactors.state import State
from streamactors.windows import BufferConfig, Suppressed, TimeWindows

SIZE_MS, GRACE_MS = 10_000, 5_000
ROWS = [
    ("ada", 1_000),
    ("bob", 2_000),
    ("ada", 12_000),
    ("eve", 21_000),
    ("ada", 26_000),
    ("late", 3_000),
    ("secret", 4_000),
    ("bob", 27_000),
]


def expected() -> dict[str, Any]:
    """Return stream time, open windows, next close, held entries and late rows of tumbling windows, computed row by row."""
    now, late = -1, []
    cells: set[tuple[int, str]] = set()
    for key, at in ROWS:
        now = max(now, at)
        start = at - at % SIZE_MS
        if start + SIZE_MS + GRACE_MS <= now:
            late.append((key, at, now - at))
        else:
            cells.add((start, key))
    opened = {start for start, _ in cells if start + SIZE_MS + GRACE_MS > now}
    held = sum(start in opened for start, _ in cells)
    return {"now": now, "open": len(opened), "next": min(opened) + SIZE_MS + GRACE_MS, "held": held, "late": late}


@pytest.mark.timeout(120)
@pytest.mark.expects_log("dropped as late")
def test_windows_late_rows_and_stores_are_what_plain_python_computes() -> None:
    want = expected()
    with Cluster() as cluster, ActorSystem("windows") as system:
        cluster.create_topic("words")
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for key, at in ROWS:
            producer.produce("words", b"x", key, timestamp=at)
        assert not producer.flush(20)
        settings = ConsumerSettings(cluster.bootstrap_servers, "words", "earliest")
        words = Consumer.records(settings, Subscriptions.topics("words"), key="string")
        windowed = words.group_by_key().windowed_by(TimeWindows.of_size(f"{SIZE_MS}ms").with_grace(f"{GRACE_MS}ms"))
        held = windowed.count(name="counts").suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        control = held.to_stream().to(Sink.ignore()).named("words").run(system)

        def redact(key: Any) -> Any:
            return "***" if key == "secret" else key

        with serve(system, redact=redact) as page:
            deadline = time.monotonic() + 60
            state: dict[str, Any] = {"windows": []}
            while time.monotonic() < deadline:
                state = page.state()
                if (
                    state["windows"]
                    and state["windows"][0]["stream_time_ms"] == want["now"]
                    and state["windows"][0]["late"] == 2
                ):
                    break
                time.sleep(0.2)
        control.shutdown().result(30)
    (window,) = state["windows"]
    assert window["graph"] == "words"
    assert window["stream_time_ms"] == want["now"]
    assert (window["open_windows"], window["next_close_ms"]) == (want["open"], want["next"])
    assert window["suppressed"] == want["held"]
    assert window["late"] == len(want["late"])
    assert window["rows"] == len(ROWS)
    shown = [(each["key"], each["timestamp_ms"], each["behind_ms"]) for each in window["late_samples"]]
    assert shown == [(repr(redact(key)), at, behind) for key, at, behind in want["late"]]
    (store,) = [each for each in state["stores"] if each["graph"] == "words"]
    assert (store["name"], store["kind"], store["task"], store["standby"]) == ("counts-store", "memory", "0_0", False)
    assert store["entries"] is not None
    assert store["entries"] >= want["held"]


@pytest.mark.timeout(180)
def test_stores_on_disk_and_standby_copies_have_sizes_and_what_they_lack(tmp_path: Path) -> None:
    def counting(cluster: Cluster, name: str) -> Any:
        settings = ConsumerSettings(cluster.bootstrap_servers, "words", "earliest")
        settings = settings.with_state(State.on_disk(tmp_path / name, cache="16MB", standbys=1))
        words = Consumer.records(settings, Subscriptions.topics("words"), key="string", value="string")
        return words.group_by_key().count(name="counts").to_stream().to(Sink.ignore()).named(name)

    with Cluster() as cluster, ActorSystem("one") as one, ActorSystem("two") as two:
        cluster.create_topic("words", 2)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(600):
            producer.produce("words", "x", f"k{n % 100}", partition=n % 2)
        assert not producer.flush(20)
        controls = [counting(cluster, "one").run(one), counting(cluster, "two").run(two)]
        with serve() as page:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                stores = page.state()["stores"]
                own = [each for each in stores if each["kind"] == "disk" and not each["standby"]]
                copies = [each for each in stores if each["standby"]]
                if len(own) == len(copies) == 2 and all(each["restore_total"] == 0 for each in copies):
                    break
                time.sleep(0.3)
        for control in controls:
            control.shutdown().result(60)
    assert {each["task"] for each in own} == {each["task"] for each in copies} == {"0_0", "0_1"}
    assert all(each["bytes"] is not None for each in (*own, *copies))
    for each in own:
        assert each["cache_hits"] is None or 0 <= each["cache_hits"] <= 1


def test_a_restore_is_shown_while_it_runs() -> None:
    def shown() -> list[tuple[int | None, int | None, bool]]:
        found = [each for each in WindowsReader().read(0.0, [])["stores"] if each.name == "words-shown-changelog"]
        return [(each.restored, each.restore_total, each.restoring) for each in found]

    restore = RestoreProgress(100, "words-shown-changelog")
    restore.read(40)
    assert shown() == [(40, 100, True)]
    RESTORES.discard(restore)
    assert shown() == []
