"""`streamactors completion`: the scripts, sourced by the shells that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.cli import main
from tests.cli.ran import Run

BIN = Path(sys.executable).parent
SCRIPTS = {
    "bash": (
        'eval "$(streamactors completion bash)"; COMP_WORDS=(streamactors {words}); COMP_CWORD={at};'
        ' _streamactors_completion streamactors; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ),
    "fish": 'streamactors completion fish | source; complete -C "streamactors {line}"',
    # what the sourced function asks for; a prompt is needed to see it draw
    "zsh": (
        'autoload -Uz compinit; compinit -u -D; eval "$(streamactors completion zsh)"; [[ -n $_comps[streamactors] ]] || exit 9;'
        ' env COMP_WORDS="streamactors {line}" COMP_CWORD={at} _STREAMACTORS_COMPLETE=zsh_complete streamactors'
    ),
}


def completed(shell: str, *words: str) -> list[str]:
    """Return what a shell proposes for the last word."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    line = " ".join(words)
    quoted = " ".join(word or "''" for word in words)
    script = SCRIPTS[shell].format(words=quoted, line=line, at=len(words))
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    ran = subprocess.run([shell, "-c", script], capture_output=True, text=True, env=env, timeout=60, check=True)
    assert ran.stderr == ""
    return [line.split("\t")[0].split(",")[-1] for line in ran.stdout.splitlines()]


@pytest.mark.skipif(not (BIN / "streamactors").exists(), reason="streamactors is not installed as a command")
@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes_commands_options_and_topics(
    shell: str, broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMACTORS_BOOTSTRAP", broker.bootstrap_servers)
    broker.create_topic(f"completed-by-{shell}")
    assert {"consume", "completion", "cluster"} > {"consume"} <= set(completed(shell, "cons"))
    assert "reset-offsets" in completed(shell, "groups", "res")
    assert "--format" in completed(shell, "consume", "--form")
    assert f"completed-by-{shell}" in completed(shell, "consume", "completed-by")


def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    monkeypatch.setenv("COMP_WORDS", " ".join(["streamactors", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    monkeypatch.setenv("_STREAMACTORS_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        main.run([])
    out, err = capsys.readouterr()
    assert err == ""
    return [line.partition(",")[2] for line in out.splitlines() if line]


def test_names_of_commands_are_completed_without_importing_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main.importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    assert complete(monkeypatch, capsys, "pro") == ["profiles", "produce"]


def test_groups_and_profiles_are_completed_and_a_broker_that_is_gone_completes_nothing(
    streamactors: Run,
    broker: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker.create_topic("for-a-group")
    streamactors("consume", "for-a-group", "--group", "completed-group")
    assert complete(monkeypatch, capsys, "groups", "describe", "completed") == ["completed-group"]
    assert complete(monkeypatch, capsys, "consume", "-b", "127.0.0.1:1", "x") == []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "streamactors.toml").write_text(
        '[profiles.prod]\nbootstrap = "x:1"\n[profiles.test]\nbootstrap = "x:1"\n'
    )
    assert complete(monkeypatch, capsys, "topics", "list", "--profile", "p") == ["prod"]
