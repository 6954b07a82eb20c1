"""The log as text: a record, a name or an error cannot forge a line of it, nor command a terminal."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from streamactors.text_log import TextFormatter
from tests.dashboard.page_states import HOSTILE

ROOT = Path(__file__).parents[1]
STRINGS = [
    *HOSTILE,
    "a\nWARNING x: forged",
    "a\r\nWARNING x: forged",
    "a\u2028WARNING x: forged",
    "\x1b]0;title\x07\x1b[31m",
    "\x9b31m",
]


@pytest.mark.parametrize("text", STRINGS)
def test_no_string_forges_a_line_or_commands_a_terminal(text: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter("%(levelname)s %(name)s: %(message)s"))
    log = logging.Logger("x")
    log.addHandler(handler)
    log.warning("group %s is empty", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("failed")
    log.warning("the end")
    lines = written.getvalue().splitlines()
    assert sum(not line.startswith("  ") for line in lines) == 3
    assert not any((c < " " and c != "\t") or "\x7f" <= c <= "\x9f" for line in lines for c in line)


BROKER = """
import logging
from streamactors.json_log import configure
configure("warning", as_json=False, text_format="%(levelname)s %(message)s")
logging.getLogger("streamactors.broker.group").warning("group %s of %s", "a\\r\\nWARNING forged", "shard")
"""
RUN = """
import logging
from streamactors.cli.log_options import begin_log
begin_log(None, None, None)
logging.getLogger("streamactors.broker.group").warning("WARNING group %s of %s", "a\\r\\nWARNING forged", "shard")
"""


@pytest.mark.expects_log("WARNING forged")
@pytest.mark.parametrize("program", [BROKER, RUN])
def test_the_commands_write_such_a_log(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr.splitlines() == ["WARNING group a\\x0d", "  WARNING forged of shard"]
