"""What tests of the page do with a headless browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from tests.dashboard.page_server import PageServer


def until(asked: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = asked()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds} s")


def opened(browser: Any, server: PageServer) -> Any:
    browser.get_log("browser")
    browser.get("about:blank")
    browser.get(server.url)
    until(lambda: browser.execute_script("return document.querySelectorAll('g.stage').length"), "the drawing")
    return browser


def text(browser: Any, id: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", id))


def press(browser: Any, key: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(key).perform()


def click(browser: Any, label: str) -> None:
    """Click the visible button of this text or aria-label."""
    found = browser.execute_script(
        """const button = [...document.querySelectorAll('button')].find(
             b => (b.textContent === arguments[0] || b.getAttribute('aria-label') === arguments[0]) && b.checkVisibility() && !b.disabled);
           if (button) button.click(); return Boolean(button);""",
        label,
    )
    assert found, f"no button {label!r}"


def rows(browser: Any) -> list[list[str]]:
    """Return the texts of the cells of all visible tables' rows."""
    found: list[list[str]] = browser.execute_script(
        """return [...document.querySelectorAll('tbody tr')].filter(r => r.checkVisibility())
             .map(r => [...r.children].filter(c => !c.hidden).map(c => c.textContent))"""
    )
    return found


def unharmed(browser: Any) -> None:
    """Nothing that a user's string says has run, no element was made of it, and the console is empty."""
    found = browser.execute_script(
        "return [window.hacked ?? null, document.querySelectorAll('img, iframe, object, embed, script:not([src])').length]"
    )
    assert found == [None, 0], found
    log = browser.get_log("browser")
    assert log == [], log


def seen(text: str) -> str:
    """Return a string as the page shows it: what is not seen, or turns the direction, is replaced."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", "\ufffd", text)
