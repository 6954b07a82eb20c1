"""What the files of deploy/ say: their objects, the command lines in them, and the variables that they set."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests.deploy.chart import rendered

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILES: Final = (DEPLOY / "docker" / "Dockerfile", DEPLOY / "pipeline" / "Dockerfile")
IMAGES: Final = ("streamactors", "orders")
"""The images that deploy/ builds; in containers of others nothing of ours runs."""


class Started(NamedTuple):
    """A process as a file starts it. `where` names the file and the process; `kept_s`: how long it may take to end."""

    where: str
    arguments: list[str]
    environment: dict[str, str]
    kept_s: float | None


def compose() -> dict[str, Any]:
    """Return compose.yaml."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    return found


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(name.upper(), " ".join(rest.split())) for name, _, rest in lines]


def unit(file: Path) -> dict[str, list[str]]:
    """Return the values of a unit by key; specifiers of an instance as for instance 0."""
    lines = [line for line in file.read_text().splitlines() if "=" in line and not line.startswith(("#", ";"))]
    found: dict[str, list[str]] = {}
    for line in lines:
        key, _, value = line.partition("=")
        for specifier, meaning in (("%i", "0"), ("%H", "host"), ("%S", "/var/lib"), ("%d", "/run/credentials")):
            value = value.replace(specifier, meaning)
        found.setdefault(key, []).append(value)
    return found


def objects() -> list[dict[str, Any]]:
    """Return the objects of the chart with everything turned on."""
    everything = rendered(keda={"enabled": True}, metrics={"podMonitor": True}, pipeline={"envSecret": "kafka"})
    return [each for found in everything.values() for each in found]


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each object that has pods, and their specification."""
    for each in objects():
        if each["kind"] == "StatefulSet":
            yield each, each["spec"]["template"]["spec"]


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name of each container, the container and its pod."""
    for owner, pod in pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            yield f"{owner['metadata']['name']}/{container['name']}", container, pod


def started() -> list[Started]:
    """Return every process of ours that the files start."""
    found = []
    for file in DOCKERFILES:
        commands = [rest for name, rest in instructions(file) if name == "CMD"]
        found += [Started(f"{file.parent.name}/Dockerfile", json.loads(rest), {}, None) for rest in commands]
    for name, service in compose()["services"].items():
        if service["image"] in IMAGES:
            kept = service.get("stop_grace_period", "10s").removesuffix("s")
            found.append(Started(f"compose/{name}", service["command"], service.get("environment", {}), float(kept)))
    for name, container, pod in containers():
        environment = {each["name"]: str(each.get("value", "from the pod")) for each in container.get("env", [])}
        found.append(Started(name, container["args"], environment, pod["terminationGracePeriodSeconds"]))
    for file in UNITS:
        values = unit(file)
        program, *arguments = shlex.split(values["ExecStart"][0])
        assert program.endswith("/bin/streamactors")
        pairs = [pair.partition("=") for line in values["Environment"] for pair in shlex.split(line)]
        kept = values["TimeoutStopSec"][0].removesuffix("s")
        found.append(Started(file.name, arguments, {name: value for name, _, value in pairs}, float(kept)))
    return found
