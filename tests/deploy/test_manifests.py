"""The objects for Kubernetes: known fields, and parts that fit each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.deploy.fields import wrong_fields
from tests.deploy.files import containers, objects, pods


def test_every_field_is_one_of_kubernetes() -> None:
    assert {each["kind"] for each in objects()} == {
        "Service",
        "StatefulSet",
        "PodDisruptionBudget",
        "ScaledObject",
        "PodMonitor",
    }
    assert [wrong for each in objects() for wrong in wrong_fields(each)] == []


def test_a_wrong_field_is_found() -> None:
    (owner, _), *_ = pods()
    wrong = copy.deepcopy(owner)
    pod = wrong["spec"]["template"]["spec"]
    pod["terminationGracePeriod"] = 5
    pod["containers"][0]["ports"][0]["containerPort"] = "9092"
    del pod["securityContext"]
    assert sorted(each.rpartition("spec.")[2] for each in wrong_fields(wrong)) == [
        "containers[0].ports[0].containerPort is '9092', not <class 'int'>",
        "securityContext is missing",
        "terminationGracePeriod is unknown",
    ]


def test_selectors_find_the_pods_of_their_owner_and_no_other() -> None:
    labels = {owner["metadata"]["name"]: owner["spec"]["template"]["metadata"]["labels"] for owner, _ in pods()}
    for each in objects():
        spec = each["spec"]
        if each["kind"] in ("Service", "StatefulSet", "PodDisruptionBudget"):
            wanted = spec["selector"].get("matchLabels", spec["selector"])
            found = [name for name, own in labels.items() if wanted.items() <= own.items()]
            assert found == [each["metadata"]["name"]]


def test_ports_that_are_named_exist() -> None:
    open_ports = {owner["metadata"]["name"]: names_of_ports(pod) for owner, pod in pods()}
    for each in objects():
        if each["kind"] == "Service":
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= open_ports[each["metadata"]["name"]]
        if each["kind"] == "PodMonitor":
            wanted = {endpoint["port"] for endpoint in each["spec"]["podMetricsEndpoints"]}
            assert all(wanted <= ports for ports in open_ports.values())
    for name, container, _ in containers():
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in {port["name"] for port in container["ports"]}, name


def names_of_ports(pod: dict[str, Any]) -> set[str]:
    return {port["name"] for container in pod["containers"] for port in container["ports"]}


def test_volumes_that_are_mounted_exist_and_all_are_used() -> None:
    for owner, pod in pods():
        claims = {claim["metadata"]["name"] for claim in owner["spec"]["volumeClaimTemplates"]}
        known = claims | {volume["name"] for volume in pod["volumes"]}
        every = [*pod.get("initContainers", []), *pod["containers"]]
        assert {mount["name"] for container in every for mount in container["volumeMounts"]} == known


@pytest.mark.parametrize(
    ("name", "container", "pod"), list(containers()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_container_has_no_more_rights_than_it_needs(
    name: str, container: dict[str, Any], pod: dict[str, Any]
) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10_000
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "/tmp" in mounted, "the root file system is read-only, so temporary files need a volume"


def test_probes_carry_no_secret_and_allow_a_long_start() -> None:
    probed = [container for _, container, _ in containers() if "readinessProbe" in container]
    assert len(probed) == 2
    for container in probed:
        assert "--probes-without-token" in container["args"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        start = container["startupProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] >= 300, "a crash makes the broker check its logs"


def test_a_pod_keeps_its_state_in_a_claim_of_its_own() -> None:
    for owner, pod in pods():
        (claim,) = owner["spec"]["volumeClaimTemplates"]
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        arguments, variables = pod["containers"][0]["args"], pod["containers"][0].get("env", [])
        named = [*arguments, *(each.get("value") for each in variables)]
        assert any(each and each.endswith(mounts[claim["metadata"]["name"]]) for each in named)
