"""The page over time, in a headless browser: a server that starts anew, saved files, motion, and what a screen reader hears."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser import click, opened, press, text, unharmed, until
from tests.dashboard.page_server import PageServer
from tests.dashboard.page_states import HOSTILE, edge, slow, stage

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.slow
def test_the_page_follows_a_server_that_starts_anew_with_the_same_token(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    served.close()
    until(lambda: text(browser, "status").startswith("stale"), "the word stale")
    again = PageServer(lambda at_ms, second: slow(at_ms + 3_600_000, second), past=3, port=served.port)
    try:
        until(lambda: text(browser, "status") == "live", "the word live")
        assert until(
            lambda: browser.execute_script("return document.getElementById('slider').max") <= "9", "its history"
        )
    finally:
        again.close()


@pytest.mark.slow
def test_the_page_says_that_a_server_with_another_token_refuses_it(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    served.close()
    again = PageServer(slow, port=served.port, token="another")
    try:
        until(lambda: text(browser, "status").startswith("refused: the server asks for its token"), "the word refused")
        assert "open the page by the address" in text(browser, "status")
    finally:
        again.close()


@pytest.mark.slow
def test_the_page_comes_back_when_a_proxy_has_answered_for_the_server(browser: Any, served: PageServer) -> None:
    """A browser connects again by itself only after a lost connection; after another answer an EventSource is closed for good."""
    opened(browser, served)
    served.away.set()
    until(lambda: text(browser, "status").startswith("stale"), "the word stale")
    served.away.clear()
    until(lambda: text(browser, "status") == "live", "the word live")


@pytest.mark.slow
def test_a_connection_that_is_dead_without_an_end_is_made_again(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    served.silent.set()
    until(lambda: served.pages > 1, "another connection")
    served.silent.clear()
    until(lambda: text(browser, "status") == "live", "the word live")


def test_the_page_works_under_a_path_of_a_proxy(browser: Any) -> None:
    server = PageServer(slow, prefix="/user/mine/proxy/4040")
    try:
        opened(browser, server)
        until(lambda: text(browser, "status") == "live", "the word live")
        assert browser.get_log("browser") == []
    finally:
        server.close()


def hostile(at_ms: int, second: int) -> Any:
    state = slow(at_ms, second)
    names = [*HOSTILE, "\x01\ufffe"]
    state["graphs"][0] |= {
        "name": HOSTILE[0],
        "stages": [stage(n, name, 0.1, 0.2, 0.3) for n, name in enumerate(names)],
        "edges": [edge(n, n + 1) for n in range(len(names) - 1)],
        "causes": [],
    }
    return state


@pytest.mark.parametrize("make", [slow, hostile])
def test_what_is_saved_is_a_valid_file(browser: Any, tmp_path: Path, make: Any) -> None:
    server = PageServer(make)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    try:
        opened(browser, server)
        for label in ("Save the state as JSON", "Save the drawing as SVG", "Save the drawing as PNG"):
            click(browser, label)
        found = until(
            lambda: (
                (each := {path.suffix: path for path in tmp_path.iterdir()}).keys() >= {".json", ".svg", ".png"}
                and each
            ),
            "three files",
        )
        assert ".crdownload" not in found
        state = json.loads(found[".json"].read_text(encoding="utf-8"))
        assert state["graphs"][0]["stages"][0]["name"] == make(0, 0)["graphs"][0]["stages"][0]["name"]
        drawing = ET.parse(found[".svg"]).getroot()
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        names = {each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")}
        assert ("decode" in names) if make is slow else any(name and name.startswith("<img src=x") for name in names)
        png = found[".png"].read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert png[-8:-4] == b"IEND"
        width, height = struct.unpack(">II", png[16:24])
        assert (width, height) == tuple(round(2 * float(drawing.attrib[side])) for side in ("width", "height"))
        unharmed(browser)
    finally:
        server.close()


def test_bars_do_not_move_where_less_motion_is_preferred(browser: Any, served: PageServer) -> None:
    moving = "return getComputedStyle(document.querySelector('.bar')).transitionDuration"
    found = {}
    try:
        for value in ("reduce", "no-preference"):
            wanted = {"features": [{"name": "prefers-reduced-motion", "value": value}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
            opened(browser, served)
            found[value] = browser.execute_script(moving)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found == {"reduce": "0s", "no-preference": "0.3s, 0.3s"}


def test_the_theme_follows_the_browser_until_one_is_chosen(browser: Any, served: PageServer) -> None:
    theme = "return document.documentElement.dataset.theme"
    try:
        for value in ("dark", "light"):
            wanted = {"features": [{"name": "prefers-color-scheme", "value": value}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
            browser.get(served.url)
            browser.execute_script("localStorage.clear()")
            opened(browser, served)
            assert browser.execute_script(theme) == value
            assert browser.execute_script("return localStorage.length") == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_screen_reader_hears_changes_and_not_the_figures_of_each_second(browser: Any) -> None:
    """The banner was a live region: its percentage was read aloud each second."""
    held = {"now": True}

    def make(at_ms: int, second: int) -> Any:
        state = slow(at_ms, second)
        if not held["now"]:
            state["banners"] = []
        return state

    server = PageServer(make, every_s=0.2)
    try:
        opened(browser, server)
        until(lambda: text(browser, "announcer") == "decode holds flights back", "the cause")
        browser.execute_script(
            """window.heard = [];
               for (const node of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))
                 new MutationObserver(() => window.heard.push(node.textContent)).observe(node, {childList: true, characterData: true, subtree: true});"""
        )
        at = server.second
        browser.execute_script("document.querySelector('g.stage').focus()")
        for key in "12":
            press(browser, key)
        until(lambda: server.second > at + 10, "ten states")
        assert browser.execute_script("return window.heard") == []
        held["now"] = False
        until(lambda: browser.execute_script("return window.heard"), "the news")
        assert browser.execute_script("return window.heard") == ["nothing holds the stream back"]
    finally:
        server.close()


def test_stages_are_walked_by_arrow_keys_and_chosen_by_enter(browser: Any, served: PageServer) -> None:
    opened(browser, served)
    browser.execute_script("document.querySelector('g.stage[tabindex=\"0\"]').focus()")
    for _ in range(3):
        press(browser, "\ue014")  # right
    press(browser, "\ue007")  # Enter
    assert browser.execute_script("return document.querySelector('.detail').textContent").startswith(
        "decode (map, island 1)"
    )
    press(browser, "\ue012")  # left
    name = "return document.activeElement.querySelector('.name').textContent"
    assert browser.execute_script(name).startswith("100 × group_by")
    assert browser.execute_script("return document.querySelectorAll('g.stage[tabindex=\"0\"]').length") == 1
