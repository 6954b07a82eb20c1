"""The units for systemd: verified by systemd where it is installed, and by their parts elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import UNITS, unit


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_understands_the_unit(file: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / file.name.replace("@", "@0")  # an instance
    copy.write_text(file.read_text().replace("/opt/streamactors/bin/streamactors", "/bin/true"))  # not installed here
    done = subprocess.run([program, "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_service_writes_only_into_its_own_folder(file: Path) -> None:
    values = unit(file)
    (name,) = values["StateDirectory"]
    folder = f"/var/lib/{name}"
    assert values["WorkingDirectory"] == [folder]
    assert folder in " ".join(values["ExecStart"] + values["Environment"])
    assert values["ProtectSystem"] == ["strict"]
    assert values["DynamicUser"] == ["yes"]
    assert values["NoNewPrivileges"] == ["yes"]


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_failed_process_is_started_again_and_a_stopped_one_is_not_a_failure(file: Path) -> None:
    values = unit(file)
    assert values["Restart"] == ["on-failure"]
    assert values["KillMode"] == ["mixed"], "SIGTERM reaches the main process, which ends its own members"
    if "pipeline" in file.name:
        assert values["SuccessExitStatus"] == ["143"]
