"""The images and the Compose file: what they are built of, and how their processes run. Docker builds them where it runs."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY, DOCKERFILES, IMAGES, ROOT, compose, instructions

IMAGE, PIPELINE = DOCKERFILES


def values_of(file: Path, name: str) -> list[str]:
    return [rest for found, rest in instructions(file) if found == name]


def is_sent(name: str, ignore: Path) -> bool:
    """Return whether Docker sends a file of the context to the build: the last line that matches decides."""
    sent = True
    for line in ignore.read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if pattern and not line.startswith("#"):
            parents = [name, *map(str, Path(name).parents)]
            if any(fnmatch.fnmatch(each, pattern) or fnmatch.fnmatch(f"./{each}", pattern) for each in parents):
                sent = line.startswith("!")
    return sent


def test_the_image_runs_as_a_user_of_its_own_and_without_a_shell() -> None:
    user = values_of(IMAGE, "USER")
    assert user == ["10001:10001"], "a number, so that Kubernetes can check runAsNonRoot"
    assert json.loads(values_of(IMAGE, "ENTRYPOINT")[0]) == ["streamactors"]
    assert values_of(IMAGE, "STOPSIGNAL") == ["SIGTERM"]
    names = [name for name, _ in instructions(IMAGE)]
    assert names.index("USER") > max(number for number, name in enumerate(names) if name == "RUN")
    assert len(values_of(IMAGE, "FROM")) == 2, "compilers and pip's leftovers stay in the first stage"


def test_what_is_copied_is_in_the_clone_and_is_sent() -> None:
    ignore = IMAGE.with_name("Dockerfile.dockerignore")
    for rest in values_of(IMAGE, "COPY"):
        if rest.startswith("--from"):
            continue
        *sources, _ = rest.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert is_sent(source.removeprefix("./"), ignore), source
    for rest in values_of(PIPELINE, "COPY"):
        assert (PIPELINE.parent / rest.split()[0]).exists()
        assert is_sent(rest.split()[0], PIPELINE.with_name(".dockerignore"))


def test_the_context_has_what_the_wheel_is_built_of_and_no_more() -> None:
    ignore = IMAGE.with_name("Dockerfile.dockerignore")
    for needed in (
        "pyproject.toml",
        "docs/kafka.md",
        "docs/monitoring/prometheus-alerts.yml",
        "streamactors/errors.py",
    ):
        assert is_sent(needed, ignore), needed
    for needless in (".git/config", ".venv/bin/python", "tests/conftest.py", "docs/images/benchmarks.png"):
        assert not is_sent(needless, ignore), needless


def test_the_extras_of_the_image_exist() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = [rest.partition("=")[2] for rest in values_of(IMAGE, "ARG") if rest.startswith("EXTRAS=")]
    assert set(given.split(",")) <= extras.keys()


def test_every_container_of_ours_is_hardened_and_every_port_is_on_loopback() -> None:
    for name, service in compose()["services"].items():
        if service["image"] in IMAGES:
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"]
            assert service["tmpfs"] == ["/tmp"]
            assert service["security_opt"] == ["no-new-privileges:true"]
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} publishes {port}"


def test_what_a_service_names_exists() -> None:
    found = compose()
    services, folder = found["services"], DEPLOY / "compose"
    for name, service in services.items():
        wanted = service.get("depends_on", {})
        assert set(wanted) <= services.keys(), name
        assert set(service.get("secrets", [])) <= found["secrets"].keys()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in found["volumes"] or (folder / source).is_file(), f"{name}: {source}"
        if "build" in service:
            context = folder / service["build"]["context"]
            assert (context / service["build"].get("dockerfile", "Dockerfile")).is_file()
    for secret in found["secrets"].values():
        assert (folder / secret["file"]).read_text().strip()


def test_services_find_each_other_by_the_names_and_ports_that_they_have() -> None:
    services = compose()["services"]
    broker = " ".join(services["broker"]["command"])
    assert {
        each["environment"]["STREAMACTORS_BOOTSTRAP"]
        for each in services.values()
        if "INSTANCE" in each.get("environment", {})
    } == {"broker:29092"}
    assert "--advertise=SERVICES://broker:29092" in broker
    assert "--listen=SERVICES://0.0.0.0:29092" in broker
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())["scrape_configs"][0]
    for target in scraped["static_configs"][0]["targets"]:
        name, _, port = target.partition(":")
        assert f"--metrics-port=0.0.0.0:{port}" in services[name]["command"]
    (source,) = yaml.safe_load((DEPLOY / "compose" / "grafana" / "datasources.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_prometheus_understands_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    file = DEPLOY / "compose" / "prometheus.yml"
    done = subprocess.run([promtool, "check", "config", "--syntax-only", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_health_check_is_a_program_that_fails_while_nobody_answers() -> None:
    (check,) = {
        json.dumps(each["healthcheck"]["test"]) for each in compose()["services"].values() if "healthcheck" in each
    }
    kind, python, *program = json.loads(check)
    assert (kind, python) == ("CMD", "python")
    port = re.search(r":(\d+)/ready", program[1])
    assert port is not None
    free = program[1].replace(f":{port[1]}/", ":1/")
    assert subprocess.run([sys.executable, "-c", free], capture_output=True).returncode == 1


@pytest.fixture(scope="module")
def docker() -> str:
    found = shutil.which("docker")
    if found is None or subprocess.run([found, "info"], capture_output=True, timeout=60).returncode:
        pytest.skip("no Docker runs here: the images are checked by their files")
    return found


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_docker_builds_the_images_and_a_container_ends_in_order(docker: str) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([docker, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=1_500)

    built = run("build", "-f", str(IMAGE), "-t", "streamactors:test", ".")
    assert built.returncode == 0, built.stderr[-3_000:]
    built = run(
        "build", "-f", str(PIPELINE), "--build-arg", "BASE=streamactors:test", "-t", "orders:test", str(PIPELINE.parent)
    )
    assert built.returncode == 0, built.stderr[-3_000:]
    name = "streamactors-image-test"
    started = run(
        "run", "--detach", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--name", name, "streamactors:test"
    )
    assert started.returncode == 0, started.stderr
    try:
        stopped = run("stop", "--time", "60", name)
        assert stopped.returncode == 0
        state: Any = json.loads(run("inspect", name).stdout)[0]["State"]
        assert state["ExitCode"] == 0, run("logs", name).stderr
    finally:
        run("rm", "--force", name)
