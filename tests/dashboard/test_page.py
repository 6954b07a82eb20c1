"""The page in a headless browser: each screen shows, updates, winds back, works by keyboard and has no violation that axe finds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser import click, opened, press, rows, text, unharmed, until
from tests.dashboard.page_server import PageServer
from tests.dashboard.page_states import HOSTILE, banner, large, slow, stage

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SCREENS = ("graph", "partitions", "time", "records", "latency", "broker", "spark", "dead")
pytestmark = pytest.mark.xdist_group("browser")


def test_the_sentence_names_the_culprit_and_the_drawing_marks_it_alone(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    assert text(browser, "banner").startswith("decode holds the stream back: it works 9")
    marked = browser.execute_script(
        "return [...document.querySelectorAll('g.stage.culprit .name')].map(n => n.textContent)"
    )
    assert marked == ["decode"]
    kinds = browser.execute_script("return [...document.querySelectorAll('g.stage')].map(n => n.classList[1])")
    assert kinds == ["waits_for_demand"] * 3 + ["works"] + ["waits_for_elements"] * 3
    assert "secret" not in browser.current_url
    islands = browser.execute_script("return [...document.querySelectorAll('.island-name')].map(n => n.textContent)")
    assert sorted(islands) == ["island 0", "island 1", "island 2 · executor 1"]


def several(at_ms: int, second: int) -> Any:
    """Two graphs; the broker and the second graph hold the streams back, and one sentence is only good to know."""
    state = slow(at_ms, second)
    busy = state["graphs"][0]
    calm = {**busy, "id": "1", "name": "calm", "stages": [stage(0, "range", 0.0, 0.0, 1.0)], "edges": [], "causes": []}
    state["graphs"] = [calm, busy]
    state["banners"] = [
        banner("broker", "broker 1: its disk is slow", graph=None),
        banner("works", "flights: decode works 96% of the time", stage=3),
        banner("partition", "partition flights-2 is late"),
        banner("source", "calm: everything in its topics has been read", holds=False, graph="1", stage=0),
    ]
    return state


def test_each_sentence_on_top_leads_to_where_it_is_and_what_is_only_good_to_know_waits(browser: Any) -> None:
    server = PageServer(several)
    try:
        opened(browser, server)
        said = "return [...document.querySelectorAll('#banner p span')].map(each => each.textContent)"
        assert browser.execute_script(said) == [
            "broker 1: its disk is slow",
            "flights: decode holds the stream back: it works 96% of the time",
            "partition flights-2 is late",
        ]
        first = "return document.querySelector('#panel section h2').textContent"
        until(lambda: browser.execute_script(first).startswith("flights ·"), "the graph that is held back comes first")
        chosen = "return document.querySelector('[role=tab][aria-selected=true]').dataset.id"
        show = "document.querySelectorAll('#banner button')[arguments[0]].click()"
        for number, screen in ((0, "broker"), (2, "partitions"), (1, "graph")):
            browser.execute_script(show, number)
            assert browser.execute_script(chosen) == screen
        until(
            lambda: (
                browser.execute_script("return document.activeElement.querySelector?.('.name')?.textContent")
                == "decode"
            ),
            "the stage",
        )
    finally:
        server.close()


def test_what_is_only_good_to_know_is_said_when_nothing_holds(browser: Any) -> None:
    def calm(at_ms: int, second: int) -> Any:
        state = several(at_ms, second)
        return {**state, "banners": state["banners"][-1:]}

    server = PageServer(calm)
    try:
        opened(browser, server)
        said = "return [...document.querySelectorAll('#banner p span')].map(each => each.textContent)"
        assert browser.execute_script(said) == [
            "Nothing holds the stream back.",
            "calm: everything in its topics has been read",
        ]
    finally:
        server.close()


@pytest.mark.parametrize("number", range(len(SCREENS)), ids=SCREENS)
def test_a_screen_opens_by_its_key_and_has_no_violation_in_either_theme(
    browser: Any, served: PageServer, number: int
) -> None:
    opened(browser, served)
    press(browser, str(number + 1))
    assert (
        browser.execute_script("return document.querySelector('[role=tab][aria-selected=true]').dataset.id")
        == SCREENS[number]
    )
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    for _ in range(2):
        found = browser.execute_async_script(
            "axe.run().then(r => arguments[0](r.violations.map(v => [v.id, v.nodes.map(n => n.html)])))"
        )
        assert found == []
        press(browser, "t")
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_figures_follow_the_server_and_pause_and_wind_back(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    press(browser, "2")
    shown = "return [...document.querySelectorAll('tbody tr')].map(r => r.textContent).join('|')"
    before = browser.execute_script(shown)
    until(lambda: browser.execute_script(shown) != before, "new figures")
    press(browser, "p")
    paused = text(browser, "at")
    assert paused.startswith("at ")
    press(browser, "[")
    until(lambda: text(browser, "at") != paused, "the moment before")
    time.sleep(3 * served.every_s)
    held = browser.execute_script(shown)
    time.sleep(3 * served.every_s)
    assert browser.execute_script(shown) == held
    press(browser, "l")
    until(lambda: browser.execute_script(shown) != held, "live figures")
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_figures_are_shown_as_stale_when_no_more_come(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    served.silent.set()
    until(lambda: text(browser, "status").startswith("stale"), "the word stale")
    served.silent.clear()
    until(lambda: text(browser, "status") == "live", "the word live")


@pytest.mark.slow
def test_strings_of_users_are_never_markup_and_a_frame_takes_less_than_a_tenth_of_a_second(browser: Any) -> None:
    server = PageServer(large)
    try:
        opened(browser, server)
        for key in "1234567":
            press(browser, key)
            browser.execute_script("performance.clearMeasures()")
            until(
                lambda: browser.execute_script("return performance.getEntriesByName('frame').length >= 4"),
                "four frames",
            )
            took = browser.execute_script("return performance.getEntriesByName('frame').map(e => e.duration)")
            assert min(took) < 100, took  # the others may have waited for other tests
        unharmed(browser)
    finally:
        server.close()


def test_the_page_fits_a_narrow_screen(browser: Any, served: PageServer) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        opened(browser, served)
        for key in range(1, len(SCREENS) + 1):
            press(browser, str(key))
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, SCREENS[key - 1]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


MARKED = "return document.querySelector('g.stage.culprit')?.dataset.id"
IN_VIEW = """
const seen = document.querySelector(".canvas").getBoundingClientRect(), box = document.querySelector("g.stage.culprit .box").getBoundingClientRect();
return box.left >= seen.left && box.right <= seen.right && box.top >= seen.top && box.bottom <= seen.bottom"""


def test_a_drawing_that_does_not_fit_moves_to_the_culprit_that_appears_unless_the_reader_has_moved_it(
    browser: Any,
) -> None:
    # It moved when it was drawn. Nothing is held back then: a culprit needs three seconds of figures, and stayed out of sight on a narrow screen.
    now = {"culprit": 0}

    def state(at_ms: int, second: int) -> Any:
        made = large(at_ms, second)
        for each in made["graphs"][0]["stages"]:
            each.update(culprit=each["id"] == now["culprit"], works=0.9 if each["id"] == now["culprit"] else 0.1)
        return made

    server = PageServer(state)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        opened(browser, server)
        until(lambda: browser.execute_script(IN_VIEW), "the first culprit in view")
        now["culprit"] = 150
        until(lambda: browser.execute_script(MARKED) == "150", "the mark of another culprit")
        until(lambda: browser.execute_script(IN_VIEW), "the other culprit in view")
        browser.execute_script("document.querySelector('.canvas').dispatchEvent(new Event('wheel'))")
        now["culprit"] = 0
        until(lambda: browser.execute_script(MARKED) == "0", "the mark of the first one again")
        assert not browser.execute_script(IN_VIEW)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        server.close()


def test_a_stage_whose_calls_are_outside_is_said_to_wait_for_them(browser: Any) -> None:
    def state(at_ms: int, second: int) -> Any:
        made = slow(at_ms, second)
        made["graphs"][0]["stages"][3].update(works=0.96, outside=0.94)
        return made

    server = PageServer(state)
    try:
        opened(browser, server)
        what = "return document.querySelector('g.stage.culprit .what').textContent"
        assert browser.execute_script(what).replace("\u202f", " ") in ("waits for calls 96%", "waits for calls 96 %")
    finally:
        server.close()


def test_a_tap_shows_elements_and_a_look_up_what_a_store_has(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    press(browser, "4")
    browser.execute_script("document.getElementById('tap-stage').value = '[\"0\",3]'")
    click(browser, "Tap")
    shown = "return [...document.querySelectorAll('.elements code')].map(e => e.textContent)"
    assert until(lambda: browser.execute_script(shown), "an element") == [f"{HOSTILE[0]} of run 0, stage 3"]
    browser.execute_script("document.getElementById('store-key').value = '7 & 8'")
    click(browser, "Look up")
    until(lambda: "'7 & 8' @ 5: counts" in browser.execute_script(shown), "the entry")
    unharmed(browser)


def test_a_search_shows_the_hits_that_the_server_finds(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    press(browser, "4")
    browser.execute_script(
        "document.getElementById('search-topic').value = 'a&b'; document.getElementById('search-from').value = '2026-01-01T00:00'"
    )
    browser.execute_script("document.getElementById('search-topic').form.requestSubmit()")
    (hit,) = until(lambda: rows(browser), "a hit")
    assert hit == ["1", "7", "1970-01-01 00:00:05", f"{HOSTILE[1]} of a&b from 1767225600000"]
    assert browser.get_log("browser") == []


def test_a_search_that_ended_early_says_so(browser: Any, served: PageServer) -> None:
    # It said "1,000 hits": a reader who looked for the newest record took it for missing.
    opened(browser, served)
    press(browser, "4")
    browser.execute_script(
        "document.getElementById('search-topic').value = 'many'; document.getElementById('search-from').value = '2026-01-01T00:00';"
        "document.getElementById('search-topic').form.requestSubmit()"
    )
    said = "the first 1,000 hits; 2,001 records were not read: narrow the search"
    until(lambda: said in browser.execute_script("return document.getElementById('panel').textContent"), said)
    unharmed(browser)


def test_no_name_leaves_its_box_and_long_times_are_days(browser: Any) -> None:
    def wide(at_ms: int, second: int) -> dict[str, Any]:
        state = slow(at_ms, second)
        state["graphs"][0]["stages"][0]["name"] = "W" * 30
        state["graphs"][0]["running_ms"] = 3 * 86_400_000 + 7_200_000
        return state

    server = PageServer(wide)
    try:
        opened(browser, server)
        title = browser.execute_script("return document.querySelector('section.card h2').textContent")
        assert "running for 3 d 2 h" in title
        widths = """return [...document.querySelectorAll('g.stage')].map(
            g => [g.querySelector('.name').getBBox().width, g.querySelector('.box').getBBox().width])"""
        assert all(name <= box - 16 for name, box in browser.execute_script(widths))
        unharmed(browser)
    finally:
        server.close()
