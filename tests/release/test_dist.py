"""`make dist`: what a release has, and that it can be checked."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="hatchling is in the extra dev")
pytest.importorskip("pyspark", reason="the bill of materials has all extras, as make venv installs them")

from tools import dist, sbom

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return sbom.bill("0.2.0", NOW)


def test_every_dependency_is_in_the_bill_with_version_and_licence(bill: dict[str, Any]) -> None:
    names = {each["name"]: each for each in bill["components"]}
    assert {"thespian", "confluent-kafka", "click", "pyspark", "rocksdict", "httpx"} <= names.keys()
    assert not {"pytest", "ruff", "matplotlib", "bytewax"} & names.keys(), "what only work on the package needs"
    for each in bill["components"]:
        (licence,) = each["licenses"]
        assert licence.get("expression") or licence["license"].get("name") or licence["license"]["id"]
        assert licence != {"license": {"name": "not declared"}}, each["name"]
        assert each["version"]
    assert names["click"]["scope"] == "required"
    assert names["pyspark"]["scope"] == "optional"
    assert names["pyspark"]["properties"] == [{"name": "streamactors:extra", "value": "spark"}]


def test_references_of_the_bill_lead_to_components(bill: dict[str, Any]) -> None:
    own = bill["metadata"]["component"]["bom-ref"]
    known = {own, *(each["bom-ref"] for each in bill["components"])}
    assert len(known) == len(bill["components"]) + 1
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= known
    reached, waiting = {own}, [own]
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    while waiting:
        new = set(needs[waiting.pop()]) - reached
        reached |= new
        waiting += new
    assert reached == known, "each component is needed by something"


def test_the_bill_has_the_form_of_cyclonedx(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert bill["serialNumber"].startswith("urn:uuid:")
    assert bill["metadata"]["timestamp"] == "2026-11-30T12:00:00Z"
    assert all(each["purl"].startswith(("pkg:pypi/", "pkg:npm/")) for each in bill["components"])
    assert json.dumps(bill) == json.dumps(sbom.bill("0.2.0", NOW)), "the same input gives the same bill"


def test_every_file_of_others_is_in_the_bill_and_has_its_licence_beside_it(bill: dict[str, Any]) -> None:
    listed = {part["name"] for each in bill["components"] for part in each.get("components", [])}
    folders = [path for path in (ROOT / "streamactors").rglob("vendor") if path.is_dir()]
    carried = {path for folder in folders for path in folder.iterdir() if path.suffix != ".txt"}
    assert {str(path.relative_to(ROOT)) for path in carried} == listed
    for path in carried:
        licence = path.with_name(f"{path.name.split('.')[0]}.LICENSE.txt")
        assert "Permission is hereby granted" in licence.read_text()


def test_what_a_marker_leaves_out_is_not_needed() -> None:
    names = {each.name for each in sbom.packages()}
    assert "colorama" not in names or sys.platform == "win32"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_release_can_be_checked_and_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert dist.main(["--into", str(tmp_path / name), "--allow-changes"]) == 0
    folder = tmp_path / "one"
    sums = dict(reversed(line.split()) for line in (folder / dist.SUMS).read_text().splitlines())
    assert {path.suffix for path in map(Path, sums)} == {".whl", ".gz", ".json"}
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    again = dict(reversed(line.split()) for line in (tmp_path / "two" / dist.SUMS).read_text().splitlines())
    assert {name: each for name, each in sums.items() if ".intoto." not in name} == {
        name: each for name, each in again.items() if ".intoto." not in name
    }, "the same commit gives the same files"
    (statement,) = (json.loads(path.read_text()) for path in folder.glob("*.intoto.json"))
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        name: each for name, each in sums.items() if ".intoto." not in name
    }
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": commit}
    assert statement["predicate"]["runDetails"]["builder"]["id"] == dist.LOCAL_BUILDER
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "streamactors/cli/main.py" in names
    assert {"streamactors/docs/operators/index.md", "streamactors/docs/reference/index.md"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert dist.main(["--into", str(folder), "--allow-changes"]) == 2
    assert "is not empty" in capsys.readouterr().err
