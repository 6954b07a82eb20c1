"""Which fields the objects of deploy/ may have, and of which kind each one is: the part of Kubernetes' API that they use.

A rule is a type; a dict of rules by field, where a name with `!` is required; a list with the rule of its items; or a tuple of choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_LABELS: Final = {"*": str}
_META: Final = {"name!": str, "labels": _LABELS}
_SELECTOR: Final = {"matchLabels!": _LABELS}
_PROBE: Final = {
    "httpGet!": {"path!": str, "port!": (str, int)},
    "periodSeconds": int,
    "timeoutSeconds": int,
    "failureThreshold": int,
    "initialDelaySeconds": int,
}
_CONTAINER: Final = {
    "name!": str,
    "image!": str,
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "args": [str],
    "env": [{"name!": str, "value": str, "valueFrom": {"fieldRef!": {"fieldPath!": str}}}],
    "envFrom": [{"secretRef!": {"name!": str}}],
    "ports": [{"name!": str, "containerPort!": int}],
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "securityContext!": {
        "allowPrivilegeEscalation!": bool,
        "readOnlyRootFilesystem!": bool,
        "capabilities!": {"drop!": [("ALL",)]},
    },
    "resources": {"requests": {"*": (str, int)}, "limits": {"*": (str, int)}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool}],
}
_POD: Final = {
    "automountServiceAccountToken!": bool,
    "enableServiceLinks!": bool,
    "terminationGracePeriodSeconds!": int,
    "securityContext!": {
        "runAsNonRoot!": bool,
        "runAsUser!": int,
        "runAsGroup": int,
        "fsGroup": int,
        "fsGroupChangePolicy": ("OnRootMismatch", "Always"),
        "seccompProfile!": {"type!": ("RuntimeDefault",)},
    },
    "initContainers": [_CONTAINER],
    "containers!": [_CONTAINER],
    "volumes": [{"name!": str, "emptyDir": {}, "secret": {"secretName!": str, "defaultMode": int}}],
}
_CLAIM: Final = {
    "metadata!": _META,
    "spec!": {
        "accessModes!": [("ReadWriteOnce",)],
        "storageClassName": str,
        "resources!": {"requests!": {"storage!": str}},
    },
}
RULES: Final[dict[tuple[str, str], Any]] = {
    ("v1", "Service"): {
        "clusterIP": str,
        "publishNotReadyAddresses": bool,
        "selector!": _LABELS,
        "ports!": [{"name!": str, "port!": int, "targetPort": (str, int)}],
    },
    ("apps/v1", "StatefulSet"): {
        "serviceName!": str,
        "replicas": int,
        "podManagementPolicy": ("OrderedReady", "Parallel"),
        "selector!": _SELECTOR,
        "template!": {"metadata!": {"labels!": _LABELS}, "spec!": _POD},
        "volumeClaimTemplates": [_CLAIM],
    },
    ("policy/v1", "PodDisruptionBudget"): {
        "maxUnavailable": (int, str),
        "minAvailable": (int, str),
        "selector!": _SELECTOR,
    },
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef!": {"apiVersion": str, "kind": str, "name!": str},
        "minReplicaCount": int,
        "maxReplicaCount": int,
        "pollingInterval": int,
        "advanced": {
            "horizontalPodAutoscalerConfig": {
                "behavior": {
                    "scaleDown": {
                        "stabilizationWindowSeconds": int,
                        "policies": [{"type!": ("Pods", "Percent"), "value!": int, "periodSeconds!": int}],
                    }
                }
            }
        },
        "triggers!": [
            {
                "type!": ("kafka",),
                "metadata!": {  # KEDA wants strings
                    "bootstrapServers!": str,
                    "consumerGroup!": str,
                    "topic!": str,
                    "lagThreshold": str,
                    "offsetResetPolicy": ("earliest", "latest"),
                    "allowIdleConsumers": ("true", "false"),
                },
            }
        ],
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        "selector!": _SELECTOR,
        "podMetricsEndpoints!": [
            {"port!": str, "authorization": {"type": str, "credentials!": {"name!": str, "key!": str}}}
        ],
    },
}


def wrong_fields(thing: dict[str, Any]) -> list[str]:
    """Return what is wrong with the fields of an object."""
    spec = RULES.get((thing.get("apiVersion", ""), thing.get("kind", "")))
    if spec is None:
        return [f"no rules for {thing.get('apiVersion')} {thing.get('kind')}"]
    rule = {"apiVersion!": str, "kind!": str, "metadata!": _META, "spec!": spec}
    return list(_wrong(thing, rule, f"{thing['kind']}"))


def _wrong(value: Any, rule: Any, where: str) -> Iterator[str]:
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            yield f"{where} is no object: {value!r}"
            return
        known = {name.rstrip("!"): each for name, each in rule.items()}
        yield from (f"{where}.{name[:-1]} is missing" for name in rule if name.endswith("!") and name[:-1] not in value)
        for name, each in value.items():
            if name in known or "*" in known:
                yield from _wrong(each, known.get(name, known.get("*")), f"{where}.{name}")
            else:
                yield f"{where}.{name} is unknown"
    elif isinstance(rule, list):
        if not isinstance(value, list) or not value:
            yield f"{where} is no list with items: {value!r}"
            return
        for number, each in enumerate(value):
            yield from _wrong(each, rule[0], f"{where}[{number}]")
    elif isinstance(rule, tuple) and not isinstance(rule[0], type):
        if value not in rule:
            yield f"{where} is {value!r}, not one of {rule}"
    elif not isinstance(value, rule) or (isinstance(value, bool) and rule is not bool):
        yield f"{where} is {value!r}, not {rule}"
