"""The bill of materials of the package, as CycloneDX 1.6: what it needs, what its extras need, and the files of others that it carries.

Versions and licences are those of the environment, which is made with constraints.txt: the versions that the tests ran with."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
NAME: Final = "streamactors"
FOR_USERS: Final = ("spark", "state", "sketches", "processes", "schemas", "tls", "oauth", "http", "files", "otel")
"""The extras that programs of users need. The others are for work on the package."""
VENDOR: Final = "streamactors/dashboard/page/vendor"
CARRIED: Final = (
    ("uPlot", "1.6.32", "MIT", (f"{VENDOR}/uPlot.min.js", f"{VENDOR}/uPlot.min.css")),
    ("@dagrejs/dagre", "3.1.3", "MIT", (f"{VENDOR}/dagre.esm.js",)),
)
"""Name, version, licence and files of what others wrote and the wheel has."""
_CLASSIFIER: Final = "License :: OSI Approved :: "
_LONGEST_LICENCE: Final = 60


class Package(NamedTuple):
    """An installed package. `extra`: the first of our extras that needs it; empty for what every installation has."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]
    extra: str

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def packages() -> list[Package]:
    """Return all packages that an installation may have, with their own needs. Raises LookupError for one that is not installed here."""
    found: dict[str, Package] = {}
    for extra in ("", *FOR_USERS):
        waiting = [each for each in _needs(NAME, extra) if extra or each not in found]
        while waiting:
            name, extras = waiting.pop()
            if name == NAME or name in found:
                continue
            try:
                needs = [each for one in ("", *extras) for each in _needs(name, one)]
                found[name] = Package(
                    name, metadata.version(name), licence(name), tuple(sorted({n for n, _ in needs})), extra
                )
            except metadata.PackageNotFoundError:
                raise LookupError(f"{name} of extra {extra or 'none'} is not installed here: make venv") from None
            waiting += needs
    return sorted(found.values())


def _needs(name: str, extra: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return what a package needs on this system, as (name, extras); with an extra only what that adds."""
    found = []
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None:
            holds = not extra
        else:
            holds = marker.evaluate({"extra": extra}) and not (extra and marker.evaluate({"extra": ""}))
        if holds:
            found.append((canonicalize_name(requirement.name), tuple(sorted(requirement.extras))))
    return found


def licence(name: str) -> str:
    """Return the licence that an installed package declares: an SPDX expression, or the name that it gives."""
    told = metadata.metadata(name)
    short = (told.get("License") or "").strip().splitlines()
    classifiers = [
        each.removeprefix(_CLASSIFIER) for each in told.get_all("Classifier") or () if each.startswith(_CLASSIFIER)
    ]
    if told.get("License-Expression"):
        return str(told["License-Expression"])
    if short and len(short[0]) <= _LONGEST_LICENCE and len(short) == 1:
        return short[0]
    return " OR ".join(classifiers) or (short[0][:_LONGEST_LICENCE] if short else "not declared")


def bill(version: str, built: datetime, root: Path = ROOT) -> dict[str, Any]:
    """Return the bill of materials of a version."""
    found = packages()
    purls = {each.name: each.purl for each in found}
    own = f"pkg:pypi/{NAME}@{version}"
    direct = sorted({name for extra in ("", *FOR_USERS) for name, _ in _needs(NAME, extra)} - {NAME})
    carried = list(_carried(root))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + ''.join(purls.values()))}",
        "version": 1,
        "metadata": {
            "timestamp": built.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": NAME,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": own,
            },
        },
        "components": [_component(each) for each in found] + carried,
        "dependencies": [
            {"ref": own, "dependsOn": [purls[name] for name in direct] + [each["bom-ref"] for each in carried]},
            *({"ref": each.purl, "dependsOn": [purls[name] for name in each.needs]} for each in found),
            *({"ref": each["bom-ref"], "dependsOn": []} for each in carried),
        ],
    }


def _component(package: Package) -> dict[str, Any]:
    is_expression = re.fullmatch(r"[\w.+-]+( (AND|OR|WITH) [\w.+()-]+)*", package.licence) is not None and bool(
        metadata.metadata(package.name).get("License-Expression")
    )
    licences = [{"expression": package.licence}] if is_expression else [{"license": {"name": package.licence}}]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "scope": "optional" if package.extra else "required",
        "licenses": licences,
        "purl": package.purl,
        "properties": [{"name": "streamactors:extra", "value": package.extra}] if package.extra else [],
    }


def _carried(root: Path) -> Iterator[dict[str, Any]]:
    for name, version, spdx, files in CARRIED:
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        parts = [
            {
                "type": "file",
                "name": file,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256((root / file).read_bytes()).hexdigest()}],
            }
            for file in files
        ]
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "scope": "required",
            "licenses": [{"license": {"id": spdx}}],
            "purl": purl,
            "components": parts,
        }
