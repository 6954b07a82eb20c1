"""The Helm chart: what it renders, which values it refuses, and that the plain manifests are what it renders."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deploy.chart import CHART, DEPLOY, Chart, manifests, rendered, values

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
EVERYTHING: dict[str, Any] = {
    "keda": {"enabled": True, "lagThreshold": 2_000_000},
    "metrics": {"podMonitor": True},
    "pipeline": {
        "env": {"STREAMACTORS_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"},
        "envSecret": "kafka",
        "options": ["--log-level=info"],
    },
    "broker": {"storageClass": "fast", "settings": {"log.retention.hours": "24"}},
}


def of_kind(objects: dict[str, list[dict[str, Any]]], kind: str) -> list[dict[str, Any]]:
    return [each for found in objects.values() for each in found if each["kind"] == kind]


def test_the_manifests_are_what_the_chart_renders() -> None:
    written = {name: (DEPLOY / "kubernetes" / name).read_text() for name in manifests()}
    assert written == manifests(), "run: python -m tests.deploy.chart"


@pytest.mark.parametrize("given", [{}, EVERYTHING, {"broker": {"enabled": False}, "bootstrapServers": "a:9092,b:9092"}])
def test_values_and_their_defaults_fit_the_schema(given: dict[str, Any]) -> None:
    jsonschema.validate(values(**given), SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        {"pipeline": {"replica": 2}},
        {"pipeline": {"replicas": "2"}},
        {"pipeline": {"graph": "orders.py"}},
        {"pipeline": {"topics": [{"name": "Orders", "partitions": 1}]}},
        {"bootstrapServers": "kafka.example.org"},
        {"keda": {"lagThreshold": 0}},
        {"broker": {"dataSize": "20 GB"}},
        {"broker": {"settings": {"log.segment.bytes": 1_000_000}}},  # Helm would write 1e+06
        {"pipeline": {"env": {"STREAMACTORS_KAFKA_LINGER_MS": 5}}},
        {"surprise": True},
    ],
)
def test_a_wrong_value_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values(**given), SCHEMA)


def test_brokers_of_others_take_the_place_of_the_charts_own() -> None:
    objects = rendered("shop", broker={"enabled": False}, bootstrapServers="kafka.example.org:9092")
    assert [each["metadata"]["name"] for each in of_kind(objects, "StatefulSet")] == ["shop-pipeline"]
    (pipeline,) = of_kind(objects, "StatefulSet")
    pod = pipeline["spec"]["template"]["spec"]
    variables = [container["env"][0] for container in (*pod["initContainers"], *pod["containers"])]
    assert variables == [{"name": "STREAMACTORS_BOOTSTRAP", "value": "kafka.example.org:9092"}] * 3


def test_keda_owns_the_number_of_pods() -> None:
    plain, scaled = rendered(), rendered(**EVERYTHING)
    counts = [of_kind(found, "StatefulSet")[-1]["spec"].get("replicas") for found in (plain, scaled)]
    assert counts == [2, None]
    (scaler,) = of_kind(scaled, "ScaledObject")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "streamactors-pipeline"
    assert scaler["spec"]["triggers"][0]["metadata"]["lagThreshold"] == "2000000"
    assert not of_kind(plain, "ScaledObject")


def test_settings_variables_and_secrets_arrive_in_the_containers() -> None:
    broker, pipeline = of_kind(rendered(**EVERYTHING), "StatefulSet")
    assert "--set=log.retention.hours=24" in broker["spec"]["template"]["spec"]["containers"][0]["args"]
    assert broker["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    pod = pipeline["spec"]["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {"name": "STREAMACTORS_KAFKA_SECURITY_PROTOCOL", "value": "SASL_SSL"} in container["env"]
        assert container["envFrom"] == [{"secretRef": {"name": "kafka"}}]
    assert pod["containers"][0]["args"][-1] == "--log-level=info"


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    assert f'\nversion = "{chart["version"]}"\n' in project
    assert chart["version"] == chart["appVersion"]


def test_a_value_that_does_not_exist_is_an_error_here_too() -> None:
    with pytest.raises(KeyError, match="nothing"):
        Chart({"one.yaml": "a: {{ .Values.nothing }}"}).render("one.yaml", {"Values": {}})
    with pytest.raises(AssertionError, match="lookup"):
        Chart({"one.yaml": "a: {{ lookup 1 }}"}).render("one.yaml", {"Values": {}})


@pytest.mark.parametrize("given", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_renders_the_same(given: dict[str, Any], tmp_path: Any) -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed: the chart is rendered by tests/deploy/chart.py alone")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(given))
    command = [helm, "template", "streamactors", str(CHART), "--values", str(tmp_path / "values.yaml")]
    command += ["--kube-version", "1.31.0"]  # a Helm that was built by hand names an old one
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = [each for each in yaml.safe_load_all(done.stdout) if each]
    ours = [each for found in rendered(**given).values() for each in found]
    key = repr
    assert sorted(theirs, key=key) == sorted(ours, key=key)
    assert subprocess.run([helm, "lint", str(CHART)], capture_output=True).returncode == 0
