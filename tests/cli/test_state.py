"""`streamactors state` on the folder of a task that was really written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamactors.cli.graphs.state import command
from streamactors.cli.main import run as run_command
from streamactors.windows import Record, State, TaskIdentity
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.topology.chain import Records, tasks_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions of counts."""
    factory = tasks_of(Records().group_by_key().count(name="counts").to_stream(), changelog=True)
    state = StateFolder(State.on_disk(tmp_path, cache="8MB"), "shop")
    for partition, keys in enumerate(["aab", "c"]):
        disk = state.open(factory().stores, partition)
        task = factory.restored(TaskIdentity("shop", partition, 2), (), DiskStores(disk, lambda: 1 << 20))
        task.process_chunk([Record(key, 1, 5) for key in keys])
        task.changes()
        disk.commit({"counts-store": 7 + partition})
    state.close()
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_list_shows_each_store_with_its_entries_and_offset(folder: Path) -> None:
    stores = [json.loads(line) for line in run("list", folder, "--json").output.splitlines()]
    assert [
        (each["application"], each["store"], each["partition"], each["entries"], each["offset"]) for each in stores
    ] == [
        ("shop", "counts-store", 0, 2, 7),
        ("shop", "counts-store", 1, 1, 8),
    ]
    assert "counts-store" in run("list", folder / "shop").output


def test_export_prints_the_entries_with_their_partition(folder: Path) -> None:
    lines = [json.loads(line) for line in run("export", folder, "--store", "counts-store").output.splitlines()]
    assert lines == [
        {"partition": 0, "fields": ["a", 2, 5]},
        {"partition": 0, "fields": ["b", 1, 5]},
        {"partition": 1, "fields": ["c", 1, 5]},
    ]
    assert run("export", folder, "--store", "counts-store", "--partition", 1).output.count("\n") == 1
    assert "there are: counts-store" in run("export", folder, "--store", "other").output


def test_a_damaged_database_is_found_and_removed_and_the_other_stays(folder: Path) -> None:
    assert "2 databases are sound" in run("check", folder).output
    assert "nothing" in run("repair", folder).output
    for file in (folder / "shop" / "counts-store" / "0").glob("*.sst"):
        file.write_bytes(b"damaged" * 100)
    checked = run("check", folder)
    assert checked.exit_code == 1
    assert "1 of 2 databases are damaged" in checked.output
    assert "removed" in run("repair", folder, "--yes").output
    assert "1 databases are sound" in run("check", folder).output


def test_a_folder_that_a_run_uses_or_that_holds_no_state_is_refused(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("streamactors.windows.state.disk.folder.LOCK_WAIT_S", 0.0)
    used = StateFolder(State.on_disk(folder, cache="8MB"), "shop")
    assert run_command(["state", "list", str(folder)]) == 1
    assert "is used by another run" in capsys.readouterr().err
    used.close()
    assert run_command(["state", "list", str(tmp_path_factory.mktemp("empty"))]) == 1
    assert "there is no state in" in capsys.readouterr().err
