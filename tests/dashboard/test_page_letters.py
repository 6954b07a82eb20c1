"""Dead letters on the page, in a headless browser: chosen, confirmed, sent, and the result of each shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.browser import click, opened, press, rows, unharmed, until
from tests.dashboard.page_server import PageServer
from tests.dashboard.page_states import HOSTILE
from tests.dashboard.test_page import AXE

pytestmark = pytest.mark.xdist_group("browser")


def letters(browser: Any, server: PageServer) -> list[list[str]]:
    opened(browser, server)
    press(browser, "8")
    click(browser, "Show the newest")
    until(lambda: [row for row in rows(browser) if "0@2" in row], "the letters")
    return [row for row in rows(browser) if any(cell.startswith("0@") for cell in row)]


def test_the_letters_of_a_topic_are_shown_as_text(browser: Any, served: PageServer) -> None:
    found = letters(browser, served)
    assert [row[1] for row in found] == ["0@2", "0@1", "0@0"]
    assert found[2][3] == "flights-1@0"
    assert HOSTILE[0] in found[2]
    assert f"{HOSTILE[0]}: {HOSTILE[1]}" in found[2]
    unharmed(browser)


def test_chosen_letters_are_sent_after_a_question_and_each_has_its_result(browser: Any, served: PageServer) -> None:
    letters(browser, served)
    box = "document.querySelector('[aria-label=\"Choose 0@%d\"]').click()"
    for n in (0, 2):
        browser.execute_script(box % n)
    click(browser, "Send 2 again…")
    asked = browser.execute_script("return document.querySelector('dialog').textContent")
    assert asked.startswith("Send 2 dead letters of flights-dead again?")
    assert "0@2 to flights-1" in asked
    assert "0@1 to" not in asked
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    assert browser.execute_async_script("axe.run().then(r => arguments[0](r.violations.map(v => v.id)))") == []
    click(browser, "Cancel")
    assert served.asked == []
    click(browser, "Send 2 again…")
    press(browser, "\ue00c")  # Escape
    until(lambda: not browser.execute_script("return document.querySelector('dialog')"), "the end of the dialog")
    assert served.asked == []
    click(browser, "Send 2 again…")
    click(browser, "Send again")
    until(lambda: served.asked, "the request")
    assert served.asked == [{"topic": "flights-dead", "letters": ["0@2", "0@0"]}]
    until(lambda: [row for row in rows(browser) if "sent to flights-1@0" in row], "the results")
    results = {row[1]: row[3] for row in rows(browser) if row[1].startswith("0@")}
    assert results["0@2"] == "sent to flights-1@0"
    assert results["0@0"] == f"not sent: RecordError: {HOSTILE[0]}"
    assert results["0@1"] == "–"
    unharmed(browser)


def test_all_letters_are_chosen_with_one_box(browser: Any, served: PageServer) -> None:
    letters(browser, served)
    browser.execute_script("document.querySelector('[aria-label=\"Choose all: Letters\"]').click()")
    click(browser, "Send 3 again…")


def test_a_page_that_only_reads_says_how_letters_are_sent(browser: Any, served: PageServer) -> None:
    served.allow_changes = False
    letters(browser, served)
    shown = browser.execute_script("return document.getElementById('panel').innerText")
    assert "read-only" in shown
    assert "--allow-changes" in shown
    assert "streamactors dead-letters replay flights-dead" in shown
    with pytest.raises(AssertionError, match="no button"):
        click(browser, "Send again…")
    unharmed(browser)
