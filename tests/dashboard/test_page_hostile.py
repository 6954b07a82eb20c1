"""Hostile strings through the real server into a real browser: names of stages and graphs, group ids, keys, values, headers, reasons of dead letters.

Topic names are not among them: a broker allows letters, digits, dot, dash and underscore only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.broker import Cluster
from streamactors.dashboard.serving import Dashboard, serve
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from tests.dashboard.browser import click, press, rows, seen, unharmed, until
from tests.dashboard.page_states import HOSTILE

# a browser, a broker and fifty stages: beside other work the start alone took four minutes
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(900)]
STRINGS = [each for each in HOSTILE if len(each) < 200] + ["line\r\nWARNING forged", "\x1b]0;title\x07\x1b[31m"]


@pytest.fixture
def page() -> Iterator[Dashboard]:
    """A graph that reads hostile records with a hostile group id, with a page of it and of its cluster."""
    with Cluster() as cluster, ActorSystem("hostile") as system:
        cluster.create_topic("plain", 1)
        cluster.create_topic("plain-dead", 1)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n, each in enumerate(STRINGS):
            data = each.encode()
            told = {"topic": "plain", "partition": "0", "offset": str(n), "error": each, "stage": each}
            own = [(each.replace("\x00", ""), data)]
            producer.produce("plain", data, data, headers=own)
            producer.produce(
                "plain-dead", data, data, headers=[*own, *((f"dead-letter.{k}", v) for k, v in told.items())]
            )
        assert not producer.flush(20)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id=STRINGS[0], auto_offset_reset="earliest")
        control = Consumer.source(settings, Subscriptions.topics("plain")).to(Sink.ignore()).named("reads").run(system)
        source = Source.cycle(STRINGS).throttle(10, "1s")
        for each in STRINGS:
            source = source.also_to(Sink.ignore().named(each))
        source.to(Sink.ignore()).named(STRINGS[1]).run(system)
        with serve(
            system, broker={"bootstrap.servers": cluster.bootstrap_servers}, name=STRINGS[0], allow_changes=True
        ) as page:
            yield page
        control.stop()


@pytest.mark.expects_log("dead letters of plain-dead again")
def test_no_string_of_a_user_becomes_markup_or_a_line_of_the_log(
    browser: Any, page: Dashboard, caplog: pytest.LogCaptureFixture
) -> None:
    browser.get_log("browser")
    browser.get("about:blank")
    with caplog.at_level(logging.DEBUG, "streamactors"):
        browser.get(page.url)
        until(
            lambda: browser.execute_script("return document.querySelectorAll('g.stage').length") > len(STRINGS),
            "the drawing",
        )
        names = browser.execute_script("return [...document.querySelectorAll('g.stage title')].map(e => e.textContent)")
        for each in STRINGS:
            assert any(name.startswith(seen(each)[:20]) for name in names), (each, names)
        titles = "return [...document.querySelectorAll('[role=tab]')].map(t => t.textContent)"
        until(
            lambda: {"Partitions", "Records", "Broker", "Dead letters"} <= set(browser.execute_script(titles)),
            "all screens",
        )
        tabs = browser.execute_script(titles)

        press(browser, str(tabs.index("Partitions") + 1))
        until(lambda: any(STRINGS[0] in row for row in rows(browser)), "the group")
        press(browser, str(tabs.index("Broker") + 1))
        until(lambda: any(STRINGS[0] in row for row in rows(browser)), "the group of the cluster")

        press(browser, str(tabs.index("Records") + 1))
        browser.execute_script(
            """const select = document.getElementById('tap-stage');
               select.value = [...select.options].find(o => o.textContent.includes('throttle')).value"""
        )
        click(browser, "Tap")
        browser.execute_script("document.getElementById('search-topic').value = 'plain'")
        browser.execute_script("document.getElementById('search-topic').form.requestSubmit()")
        found = until(lambda: len(rows(browser)) >= len(STRINGS) and rows(browser), "the hits")
        assert {STRINGS[0], STRINGS[1]} <= {row[-1] for row in found}
        shown = "return [...document.querySelectorAll('.elements code')].map(e => e.textContent)"
        until(lambda: browser.execute_script(shown), "tapped elements")

        press(browser, str(tabs.index("Dead letters") + 1))
        topic = "return document.getElementById('letters-topic').value"
        until(lambda: browser.execute_script(topic) == "plain-dead", "the topic that was found")
        click(browser, "Show the newest")
        until(lambda: len([row for row in rows(browser) if STRINGS[0] in row]), "the letters")
        browser.execute_script("document.querySelector('[aria-label=\"Choose all: Letters\"]').click()")
        click(browser, f"Send {len(STRINGS)} again…")
        click(browser, "Send again")
        until(
            lambda: (
                len([row for row in rows(browser) if row[3:4] and row[3].startswith("sent to plain-0@")])
                == len(STRINGS)
            ),
            "the results",
        )
    unharmed(browser)
    lines = [record.getMessage() for record in caplog.records if record.name == "streamactors.dashboard"]
    assert len([line for line in lines if "dead letters of plain-dead again" in line]) == 1
    assert not any("\n" in line or "\x1b" in line for line in lines)
