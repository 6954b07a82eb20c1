"""Write docs/broker-reference.md from the broker's code: APIs, settings and the differences from Apache Kafka.

The sources are the headers of the handlers and the declarations of the settings.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path

from streamactors.broker import apis
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.setting import Settings
from streamactors.broker.config.topic_settings import BROKER_SYNONYMS, TopicSettings
from streamactors.broker.config.unsupported import WITHOUT_EFFECT
from streamactors.broker.requests.api import Routes

PAGE = Path(__file__).parent / "broker-reference.md"
LABELS = ("Versions", "Authorised", "Errors", "Differs from Apache Kafka")
OWN = frozenset({"max.in.flight.requests", "pipelining", "record.validation"})

INTRODUCTION = """\
# The broker: reference

`make docs` generates this page from the code. [The broker](broker.md) is the page to read first.

## What differs from Apache Kafka

In general:

- One node, or one of several; controllers may be streamactors nodes, nodes of Apache Kafka or both. TLS is by PEM files, SASL by SCRAM,
  PLAIN and OAUTHBEARER.
- The broker listens on loopback (`localhost:9092`) by default; Apache Kafka listens on every interface.
- Batches are checked by header and CRC, and record by record only in compacted topics or with `record.validation=full`.
- If `compression.type` is a codec, a batch of another codec is compressed again after the check of its header; lz4 has one level.
- Up to 64 requests of a connection are served at the same time and answered in their order (`pipelining=false` serves one).
- A request may have 250,000 elements of arrays in total, 127 tagged fields in a struct and 64 KiB in a string; Apache Kafka only
  limits strings, to 32 KiB. The answer to a refused batch names the first 1,000 bad records.
- Settings of security, tiered storage and plug-ins that this broker does not have are refused by name. Settings of other missing features are
  accepted with a warning and [have no effect](#accepted-without-effect). Other unknown broker settings are kept with a warning.
- `Cluster()` turns the rebalance delay off and gives the internal topics 4 partitions each.

By API:
"""


def text() -> str:
    """Return the page."""
    lines = [INTRODUCTION]
    lines += [
        f"- **{name}**: {parts[LABELS[3]]}" for _, name, parts in _apis() if not parts[LABELS[3]].startswith("nothing")
    ]
    lines += ["", "## APIs", "", "| key | API | versions | remarks | authorised |", "|---|---|---|---|---|"]
    for key, name, parts in _apis():
        low_high, _, remarks = parts["Versions"].partition(" ")
        lines.append(_row(key, name, low_high.rstrip("."), remarks.strip("()."), parts["Authorised"].rstrip(".")))
    lines += [
        "",
        "## Settings of topics",
        "",
        "A topic without its own value uses the broker's setting of the fifth column.",
        "",
        *_settings(TopicSettings, ("setting", "type", "default", "limits", "broker's setting", "what it does")),
        "",
        "## Settings of the broker",
        "",
        "Given with `--set`, in a `server.properties` file, or as `Cluster(config={…})`. Those marked *dynamic* can be changed",
        "while the broker runs.",
        "",
        *_settings(BrokerConfig, ("setting", "type", "default", "limits", "dynamic", "what it does")),
        "",
        "## Accepted without effect",
        "",
        *_without_effect(),
        "",
        "## Metrics",
        "",
        "`--metrics-port` serves `/metrics`, `/live` and `/ready`. [Metrics](metrics.md#a-broker) has the names.",
        "",
    ]
    return "\n".join(lines)


def _apis() -> Iterable[tuple[int, str, dict[str, str]]]:
    routes = Routes.of_package(apis)
    for key, low, high in routes.ranges:
        module = importlib.import_module(routes.get(key).handle.__module__)  # type: ignore[union-attr]
        parts = parts_of(module.__doc__ or "")
        told = parts["Versions"].partition(" ")[0].rstrip(".")
        assert told in (f"{low}-{high}", f"{low}"), f"{module.__name__} serves {low}-{high}, its header says {told}"
        yield key, (module.__doc__ or "").partition(":")[0], parts


def parts_of(header: str) -> dict[str, str]:
    """Return the text under each label of a handler's header."""
    flat = " ".join(header.split())
    found = dict.fromkeys(LABELS, "")
    marks = sorted((match.start(), label) for label in LABELS for match in [re.search(rf"\b{label}:", flat)] if match)
    for (start, label), (end, _) in zip(marks, [*marks[1:], (len(flat), "")], strict=True):
        found[label] = flat[start + len(label) + 1 : end].strip()
    return found


def _settings(declaring: type[Settings], columns: tuple[str, ...]) -> Iterable[str]:
    yield _row(*columns)
    yield "|" + "---|" * len(columns)
    for name, setting in sorted(declaring.declared().items()):
        default = setting.format(setting.default)
        if declaring is TopicSettings:
            fourth = ", ".join(synonym.name for synonym in BROKER_SYNONYMS.get(name, ()))
        else:
            fourth = "dynamic" if setting.dynamic else ""
        own = " (ours)" if name in OWN else ""
        shown = "not set" if default is None else f"`{default}`" if default else "empty"
        yield _row(f"`{name}`{own}", setting.kind.name.lower(), shown, setting.check.limits, fourth, setting.doc)


def _without_effect() -> Iterable[str]:
    reasons: dict[str, list[str]] = {}
    for name, because in WITHOUT_EFFECT.items():
        reasons.setdefault(because, []).append(name)
    for because, names in reasons.items():
        yield f"- {because}: {', '.join(f'`{name}`' for name in sorted(names))}"


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
