"""The documentation site in a headless browser: search, links, copy buttons, versions, narrow screens. It is built once, and served or opened as files."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.dashboard.browser import until
from tests.dashboard.conftest import chromium

pytest.importorskip("zensical", reason="the extra docs is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NARROW = ("kafka.html", "operators/operators-fold.html", "errors.html", "broker-reference.html", "architecture.html")
_ADDRESSES = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src", "source": "src"}


class Addresses(HTMLParser):
    """The addresses of a page: links to follow, files that the browser loads, and the anchors that it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.anchors.update(of[name] or "" for name in ("id", "name") if name in of)
        address = of.get(_ADDRESSES.get(tag, "")) or ""
        if address:
            (self.links if tag == "a" else self.loaded).append(address)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test reads what the browser says."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the site in two versions: 9.8.0, and 9.7.0 that was built before."""
    from tools.site.build import build, finish

    folder = tmp_path_factory.mktemp("site")
    build(folder / "9.8.0", folder / "prepared")
    (folder / "9.7.0").mkdir()
    for name in ("index.html", "llms.txt"):
        (folder / "9.7.0" / name).write_bytes((folder / "9.8.0" / name).read_bytes())
    assert finish(folder) == "9.8.0"
    return folder


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    made = chromium()
    yield made
    made.quit()


def parsed(site: Path) -> dict[Path, Addresses]:
    return {path: Addresses(path.read_text(encoding="utf-8")) for path in (site / "9.8.0").rglob("*.html")}


def test_no_link_is_dead_and_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = parsed(site)
    assert len(pages) > 80
    dead, foreign = [], []
    for path, page in pages.items():
        foreign += [f"{path.name}: {address}" for address in page.loaded if re.match(r"(https?:)?//", address)]
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = Path(unquote(urlsplit(urljoin(path.as_uri(), address)).path))
            target = target / "index.html" if target.is_dir() else target
            there = pages[target].anchors if target in pages else set()
            if not target.is_file() or (parts.fragment and target in pages and unquote(parts.fragment) not in there):
                dead.append(f"{path.name}: {address}")
    assert (dead, foreign) == ([], [])


def test_each_page_is_there_as_markdown_too(site: Path) -> None:
    lacking = [path.relative_to(site).as_posix() for path in parsed(site) if not path.with_suffix(".md").is_file()]
    assert lacking == []


@pytest.mark.parametrize("opened_as", ["served", "files"])
def test_the_search_finds_a_setting(opened_as: str, site: Path, served: str, browser: Any) -> None:
    root = served if opened_as == "served" else f"{site.as_uri()}/"
    browser.get(f"{root}9.8.0/index.html")
    found = searched(browser, "debounce")
    assert any("operators-timing" in address for address in found), found


def searched(browser: Any, words: str) -> list[str]:
    """Type words into the search, and return the addresses of the hits."""
    browser.execute_script("document.querySelector('[for=__search], .md-search__button, .md-search')?.click()")
    field = until(lambda: browser.execute_script(FIELD), "the field of the search")
    field.send_keys(words)
    return until(lambda: browser.execute_script(HITS, words), f"a hit for {words!r}")


FIELD = """
const all = [...document.querySelectorAll("input[type=search], input[name=query], .md-search input, input[placeholder]")];
for (const host of document.querySelectorAll("*")) if (host.shadowRoot) all.push(...host.shadowRoot.querySelectorAll("input"));
return all.find((each) => each.getBoundingClientRect().width > 0) ?? null;
"""
HITS = """
const all = [...document.querySelectorAll(".md-search a, [class*=search] a")];
for (const host of document.querySelectorAll("*")) if (host.shadowRoot) all.push(...host.shadowRoot.querySelectorAll("a"));
const hits = all.map((each) => each.href).filter((each) => each.includes(".html"));
return hits.length ? hits : null;
"""


def test_code_is_copied_as_the_page_has_it(served: str, browser: Any) -> None:
    browser.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": served.rstrip("/")},
    )
    browser.get(f"{served}9.8.0/kafka.html")
    button = until(
        lambda: browser.execute_script("return document.querySelector('.md-code__button, .md-clipboard')"), "the button"
    )
    button.click()
    code = browser.execute_script("return document.querySelector('pre code').innerText")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    copied = until(lambda: text if "import" in (text := browser.execute_async_script(read)) else None, "the copy")
    assert copied.strip() == code.strip()
    assert "from streamactors import" in copied


@pytest.mark.parametrize("page", NARROW)
def test_a_narrow_screen_does_not_scroll_sideways(page: str, served: str, browser: Any) -> None:
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(f"{served}9.8.0/{page}")
        until(lambda: browser.execute_script("return document.readyState") == "complete", page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_is_dark_where_the_reader_wants_it_dark(served: str, browser: Any) -> None:
    colours = []
    for wanted in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": wanted}]}
        )
        browser.get(f"{served}9.8.0/kafka.html")
        colours.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert light > 600
    assert dark < 150


def test_the_root_leads_to_the_newest_version_and_a_page_to_the_others(site: Path, served: str, browser: Any) -> None:
    assert [each["version"] for each in json.loads((site / "versions.json").read_text())] == ["9.8.0", "9.7.0"]
    browser.get(served)
    until(lambda: browser.current_url == f"{served}9.8.0/index.html", "the newest version")
    offered = until(lambda: browser.execute_script(VERSIONS), "the list of versions")
    assert [address.removeprefix(served).rstrip("/") for address in offered] == ["9.8.0", "9.7.0"]


VERSIONS = """
const found = [...document.querySelectorAll(".md-version a")].map((each) => each.href);
return found.length ? found : null;
"""


def test_the_browser_reports_no_error(served: str, browser: Any) -> None:
    browser.get_log("browser")
    browser.get(f"{served}9.8.0/operators/index.html")
    until(lambda: browser.execute_script("return document.readyState") == "complete", "the page")
    assert [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
