"""The pages of a company's list: licences, supported versions, and the files that hosts of repositories run."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def page(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_page_of_licences_names_every_package_that_an_installation_has() -> None:
    pytest.importorskip("pyspark", reason="the page has all extras, as make venv installs them")
    from tools.sbom import packages

    named = set(re.findall(r"^\| ([\w.-]+) \|", page("docs/licences.md"), re.M))
    assert {each.name for each in packages()} - named == set(), "run: python -m tools.licences"


def test_the_versions_on_the_page_are_those_of_the_package() -> None:
    text = page("docs/support.md")
    assert PROJECT["requires-python"] == ">=3.11"
    versions = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert versions == ["3.11", "3.12", "3.13"]
    assert "| 3.11 | supported" in text
    assert "| 3.12, 3.13 | supported" in text
    assert "pyspark>=4.2,<5" in PROJECT["optional-dependencies"]["spark"]
    assert "| PySpark | 4.2 and newer, below 5 |" in text


def test_the_policy_names_the_version_that_gets_fixes() -> None:
    minor = ".".join(PROJECT["version"].split(".")[:2])
    assert f"| {minor} | yes |" in page("SECURITY.md")


def test_links_of_the_policy_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)", page("SECURITY.md"))
    assert len(targets) >= 3
    assert [target for target in targets if not (ROOT / target).exists()] == []
