"""What notebooks show: strings of users and of records are text, bounded, and never markup."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import count
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.mime_bundles import MOST_CHARACTERS, MOST_ROWS, escaped, plain, table_bundle

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</table></svg><script>",
    "a\x1b[31mred\x00\x07",
    "line\nbreak\rback",
    "\u202egnp.exe",
    "\ufffe\uffff\ud800",
    "&lt;b&gt;",
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_string_is_text_in_a_table(text: str) -> None:
    bundle = table_bundle(text, [text, "b"], [[text, {"k": text}]])
    found = Tags()
    found.feed(bundle["text/html"])
    assert set(found.tags) == {"table", "caption", "b", "thead", "tr", "th", "tbody", "td"}
    assert found.texts[0] == plain(text)
    assert bundle["text/plain"].count("\n") == 2
    assert "\x1b" not in bundle["text/plain"]


@given(st.text(max_size=300))
def test_every_text_is_well_formed_xml_and_short(text: str) -> None:
    element = ElementTree.fromstring(f'<a b="{escaped(text)}">{escaped(text)}</a>')
    assert (element.text or "") == element.attrib["b"] == plain(text)
    assert len(plain(text)) <= MOST_CHARACTERS


def test_rows_are_bounded_and_it_says_so() -> None:
    bundle = table_bundle("numbers", ["n"], ([n] for n in count()))
    assert bundle["text/html"].count("<tr>") == MOST_ROWS + 1
    assert f"the first {MOST_ROWS} rows" in bundle["text/html"]
    assert bundle["text/plain"].splitlines()[-1] == f"the first {MOST_ROWS} rows"
    assert "the first" not in table_bundle("few", ["n"], [[1]])["text/plain"]


def test_a_large_value_is_cut_before_it_is_made_a_text_and_a_broken_repr_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert len(plain(b"x" * 50_000_000)) <= MOST_CHARACTERS
    assert len(plain([[0] * 1_000] * 1_000)) <= MOST_CHARACTERS
    assert plain(Broken()).startswith("<Broken ")
