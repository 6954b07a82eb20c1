"""docs/spark-sessions.md lists exactly the settings that spark_session makes."""

from __future__ import annotations

import re

from streamactors.spark.session.session import DEFAULTS, LOCAL_DEFAULTS, OLDEST_SPARK
from streamactors.spark.sink.delta import TESTED, TESTED_WITH
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "spark-sessions.md").read_text(encoding="utf-8")
CHANGES = PAGE.partition("## What does `spark_session()` change?")[2].partition("\n## ")[0]


def listed(part: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(spark\.[^`]+)` \| `([^`]*)` \|", part, re.MULTILINE))


def test_the_page_lists_the_settings_that_are_made_with_every_master_and_with_a_local_one() -> None:
    always, _, local = CHANGES.partition('With `master="local[…]"` also these:')
    assert listed(always) == DEFAULTS
    assert listed(local) == LOCAL_DEFAULTS


def test_the_page_names_the_versions_that_the_code_asks_for() -> None:
    oldest = ".".join(map(str, OLDEST_SPARK))
    assert PAGE.count(f"Spark {oldest} or newer") >= 2
    assert f"| Delta Lake | {TESTED} | Spark {TESTED_WITH} |" in PAGE
