"""The examples of the page about the broker run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "broker.md"
SECTION = (
    PAGE.read_text().partition("## How do I use it in a test or a script?")[2].partition("\n## What can I rely on")[0]
)


def example(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_ten_lines_of_python() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", example("python")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "b'hello'\n", "")


def test_the_command_line(tmp_path: Path) -> None:
    start, *commands = example("sh").strip().splitlines()
    assert start.endswith(" &")
    scripts = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    arguments = shlex.split(start.removesuffix(" &"))
    broker = subprocess.Popen(
        [*arguments, "--listen", "127.0.0.1:0"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        match = re.search(r"127\.0\.0\.1:\d+", ready)
        assert match is not None, ready
        env["STREAMACTORS_BOOTSTRAP"] = match[0]  # the default port may be somebody else's where tests run
        for command in commands:
            ran = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=60, check=False)
            assert ran.returncode == 0, ran.stderr
        assert "hello" in ran.stdout
    finally:
        broker.terminate()
        broker.wait(20)
        if broker.stdout is not None:
            broker.stdout.close()
    assert (tmp_path / "data" / "greetings-0").is_dir()
