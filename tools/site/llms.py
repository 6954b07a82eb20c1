"""llms.txt: the pages of the site as a list for programs that read Markdown (title, link, first sentence), and all pages in one file."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from tools.site import navigation

SUMMARY = (
    "Back-pressured stream graphs for Python, a Kafka-compatible broker that starts in milliseconds inside a test, and bridges to Kafka "
    "and Spark. Each page is Markdown; the page in HTML has the same name with .html."
)
_FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r".+?[.?!:](?=\s|$)", re.DOTALL)


def index(nav: list[Any], pages: dict[str, str]) -> str:
    """Return llms.txt. `pages`: the Markdown of each page of the navigation."""
    lines = ["# streamactors", "", f"> {SUMMARY}"]
    listed = [(sections[0] if sections else "Start", page) for sections, page in navigation.pages(nav)]
    for section, entries in groupby(listed, key=lambda each: each[0]):
        lines += ["", f"## {section}", ""]
        lines += [f"- [{title(pages[page])}]({page}): {first_sentence(pages[page])}" for _, page in entries]
    return "\n".join(lines) + "\n"


def whole(nav: list[Any], pages: dict[str, str]) -> str:
    """Return every page, in the order of the navigation."""
    return "\n\n".join(pages[page].strip() for _, page in navigation.pages(nav)) + "\n"


def title(markdown: str) -> str:
    """Return the first heading."""
    return next(line.removeprefix("# ").strip() for line in markdown.splitlines() if line.startswith("# "))


def first_sentence(markdown: str) -> str:
    """Return the first sentence below the title, without links. A page without prose has its headings."""
    paragraphs = _FENCE.sub("", markdown).split("\n\n")
    prose = next((each for each in paragraphs if re.match(r"[\w`*\"(\[]", each)), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    sentence = _SENTENCE.match(plain)
    if sentence or plain:
        return sentence[0] if sentence else plain
    return "; ".join(line.removeprefix("## ") for line in markdown.splitlines() if line.startswith("## ")) or title(
        markdown
    )
