"""`make dist`: the packages of a release, their bill of materials, a statement of how they were built, and checksums.

Builds from a commit, and twice with the same result: times in the archives are those of the commit. The statement is not signed; the workflow
that publishes a release signs it, or `cosign attest-blob` does."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tools.sbom import NAME, ROOT, bill

BUILD_TYPE: Final = "urn:streamactors:make-dist:1"
LOCAL_BUILDER: Final = "urn:streamactors:make-dist:unsigned-local-build"
SUMS: Final = "SHA256SUMS"


def git(*arguments: str) -> str:
    """Return what git prints. Raises CalledProcessError."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(folder: Path, epoch: int) -> list[Path]:
    """Make the pages that git does not have, write wheel and sdist; return these two."""
    subprocess.run([sys.executable, "-m", "docs.generate"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "sdist", "-t", "wheel"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def provenance(files: list[Path], commit: str, clean: bool, begun: datetime, ended: datetime) -> dict[str, Any]:
    """Return the in-toto statement with SLSA's provenance: which files were built, of what, how, by whom."""
    source = os.environ.get("DIST_SOURCE", f"git+file:///{NAME}")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": digest(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "make dist", "source": source, "commit": commit, "clean": clean},
                "internalParameters": {"python": platform.python_version(), "system": platform.system()},
                "resolvedDependencies": [
                    {"uri": source, "digest": {"gitCommit": commit}},
                    {"uri": f"pkg:pypi/hatchling@{metadata.version('hatchling')}"},
                    {"name": "constraints.txt", "digest": {"sha256": digest(ROOT / "constraints.txt")}},
                ],
            },
            "runDetails": {
                "builder": {"id": os.environ.get("DIST_BUILDER", LOCAL_BUILDER)},
                "metadata": {
                    "invocationId": os.environ.get("DIST_RUN", f"{commit}/{int(begun.timestamp())}"),
                    "startedOn": _time(begun),
                    "finishedOn": _time(ended),
                },
            },
        },
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(arguments: list[str] | None = None) -> int:
    """Write everything into the folder; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="an empty folder, or one that does not exist")
    parser.add_argument(
        "--allow-changes", action="store_true", help="build what is not committed, and say so in the statement"
    )
    given = parser.parse_args(arguments)
    clean = not git("status", "--porcelain", "--untracked-files=no")
    if not clean and not given.allow_changes:
        print("there are changes that are not committed: commit them, or give --allow-changes", file=sys.stderr)
        return 2
    into: Path = given.into
    if into.exists() and any(into.iterdir()):
        print(f"{into} is not empty: remove what an earlier build has left there", file=sys.stderr)
        return 2
    into.mkdir(parents=True, exist_ok=True)
    begun = datetime.now(UTC)
    commit, epoch = git("rev-parse", "HEAD"), int(git("log", "-1", "--format=%ct"))
    files = build(into, epoch)
    version = next(file for file in files if file.suffix == ".whl").name.split("-")[1]
    sbom = into / f"{NAME}-{version}.cdx.json"
    sbom.write_text(json.dumps(bill(version, datetime.fromtimestamp(epoch, UTC)), indent=2) + "\n", encoding="utf-8")
    statement = into / f"{NAME}-{version}.intoto.json"
    told = provenance([*files, sbom], commit, clean, begun, datetime.now(UTC))
    statement.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    every = [*files, sbom, statement]
    (into / SUMS).write_text("".join(f"{digest(file)}  {file.name}\n" for file in every), encoding="utf-8")
    for file in [*every, into / SUMS]:
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
