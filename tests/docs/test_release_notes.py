"""A release joins the files of changelog.d/ into the changelog."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import streamactors
from tools.release_notes import ROOT, joined, main, section_of

CHANGELOG = """# Changelog

The newest version is first.

## 0.2.0

- A feature.

## 0.1.0

- The beginning.
"""


def test_entries_go_below_the_heading_of_their_version_in_the_order_of_the_files() -> None:
    files = {"spark.md": "- Of Spark.\n", "kafka.md": "- Of Kafka,\n  in two lines.\n\n- Again.\n"}
    assert joined(CHANGELOG, "0.2.0", files) == CHANGELOG.replace(
        "- A feature.\n", "- A feature.\n- Of Kafka,\n  in two lines.\n- Again.\n- Of Spark.\n"
    )


def test_a_new_version_gets_a_heading_above_the_others() -> None:
    text = joined(CHANGELOG, "0.3.0", {"kafka.md": "- Of Kafka.\n"})
    assert text == CHANGELOG.replace("## 0.2.0", "## 0.3.0\n\n- Of Kafka.\n\n## 0.2.0")
    assert section_of(text, "0.3.0") == "## 0.3.0\n\n- Of Kafka.\n"


def test_the_oldest_version_takes_entries_too() -> None:
    text = joined(CHANGELOG, "0.1.0", {"kafka.md": "- Of Kafka.\n"})
    assert text == CHANGELOG + "- Of Kafka.\n"


def test_without_files_nothing_changes() -> None:
    assert joined(CHANGELOG, "0.2.0", {}) == CHANGELOG


@pytest.mark.parametrize("text", ["", "### Added\n- One.\n", "One.\n", "  continued\n"])
def test_a_file_that_is_no_list_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"changelog\.d/kafka\.md: a file is a list of entries"):
        joined(CHANGELOG, "0.2.0", {"kafka.md": text})


def folder(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "kafka.md").write_text("- Of Kafka.\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "0.2.0"\n')
    return tmp_path


def test_a_release_joins_the_files_and_removes_them(tmp_path: Path) -> None:
    root = folder(tmp_path)
    assert main(["0.2.0"], root) == 0
    assert "- A feature.\n- Of Kafka.\n" in (root / "CHANGELOG.md").read_text()
    assert list((root / "changelog.d").iterdir()) == []


def test_a_preview_prints_the_section_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = folder(tmp_path)
    assert main(["0.2.0", "--preview"], root) == 0
    assert capsys.readouterr().out == "## 0.2.0\n\n- A feature.\n- Of Kafka.\n"
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG
    assert (root / "changelog.d" / "kafka.md").exists()


def test_another_version_than_that_of_the_project_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["0.3.0"], folder(tmp_path)) == 2
    assert "the version of pyproject.toml is 0.2.0" in capsys.readouterr().err


def test_the_package_the_project_and_the_changelog_name_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert streamactors.__version__ == project
    files = {path.name: path.read_text() for path in (ROOT / "changelog.d").glob("*.md")}
    text = joined((ROOT / "CHANGELOG.md").read_text(), project, files)
    assert section_of(text, project).count("\n- ") >= len(files)
