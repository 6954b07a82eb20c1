"""Counts the words of a page and the words of its sentences. Code blocks, comments and link targets are not counted.

python tools/prose.py                    a row per page of docs/: words, words a sentence, the longest sentence
python tools/prose.py docs/windows.md    the sentences of one page, the longest first
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_UNREAD = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*$|<!--.*?-->", re.MULTILINE | re.DOTALL)
"""What no reader reads as prose: fenced blocks and comments."""
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_TARGET = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*(?:`|[^\W_]))")
_NO_END = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.")


@dataclass(frozen=True)
class Prose:
    """The words of one page: those of prose, headings, lists and tables."""

    markdown: str

    @cached_property
    def text(self) -> str:
        """The page without code blocks, pictures and the targets of links. A name in code is one word."""
        read = _LINK.sub(r"\1", _IMAGE.sub("", _UNREAD.sub("", self.markdown)))
        return _NO_END.sub(r"\1", _CODE.sub(lambda code: "`" + "_".join(code[0][1:-1].split()) + "`", read))

    @property
    def words(self) -> int:
        """Number of words, those of headings and tables included."""
        return sum(map(_count, self.text.splitlines()))

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of paragraphs and list items. Headings and cells of tables are not sentences."""
        return [sentence for block in self._blocks() for sentence in _END.split(block) if _count(sentence)]

    @property
    def words_a_sentence(self) -> float:
        """Average number of words of a sentence; 0 if the page has none."""
        return sum(map(_count, self.sentences)) / max(1, len(self.sentences))

    def _blocks(self) -> Iterator[str]:
        """Yield each paragraph and each list item as one line."""
        block: list[str] = []
        for line in [*self.text.splitlines(), ""]:
            apart = not line.strip() or line.lstrip().startswith(("#", "|"))
            if (apart or _ITEM.match(line)) and block:
                yield " ".join(block)
                block = []
            if not apart:
                block.append(_ITEM.sub("", line).strip().lstrip("> "))


def anchors(markdown: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them: a second heading of the same words has -1."""
    found: set[str] = set()
    for heading in _HEADING.findall(_UNREAD.sub("", markdown)):
        words = re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", heading).lower()).replace(" ", "-")
        again = sum(1 for known in found if known == words or re.fullmatch(re.escape(words) + r"-\d+", known))
        found.add(f"{words}-{again}" if again else words)
    return found


def links(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the anchor of each link to a page of the documentation; a file of "" is the page itself."""
    for target in _TARGET.findall(_CODE.sub("", _UNREAD.sub("", markdown))):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor


def _count(text: str) -> int:
    """Return how many words a text has: what contains a letter or a digit, between spaces."""
    return sum(1 for word in text.split() if any(map(str.isalnum, word)))


def main(names: list[str]) -> None:
    """Print a row per page, or the sentences of one page."""
    if len(names) == 1:
        for sentence in sorted(Prose(Path(names[0]).read_text(encoding="utf-8")).sentences, key=_count, reverse=True):
            print(f"{_count(sentence):4}  {sentence}")
        return
    print(f"{'words':>6} {'a sentence':>11} {'longest':>8}  page")
    for path in map(Path, names) if names else sorted((ROOT / "docs").glob("*.md")):
        prose = Prose(path.read_text(encoding="utf-8"))
        longest = max(map(_count, prose.sentences), default=0)
        print(f"{prose.words:6} {prose.words_a_sentence:11.1f} {longest:8}  {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
