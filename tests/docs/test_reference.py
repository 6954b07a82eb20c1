"""The reference of public names: nothing public lacks its entry, and no parameter lacks its meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

from docs import reference
from docs.described import Parameter, as_markdown, parameters
from streamactors.broker import Cluster
from streamactors.durations import Duration
from streamactors.kafka import ConsumerSettings
from tools.public_api import LIST


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_every_setting_has_a_meaning_in_the_source() -> None:
    """A meaning that several functions share may be in docs/parameters.py; that of a setting is beside the setting."""
    settings = [
        each.value for each in reference.names() if inspect.isclass(each.value) and each.name.endswith("Settings")
    ]
    assert len(settings) > 4
    lacking = [
        f"{cls.__name__}.{name}"
        for cls in settings
        for name in inspect.signature(cls).parameters
        if not parameters_by_name(cls)[name].meaning or not said_in_the_source(cls, name)
    ]
    assert lacking == [], "write a docstring below the field"


def parameters_by_name(cls: type) -> dict[str, Parameter]:
    return {each.name: each for each in parameters(cls)}


def said_in_the_source(cls: type, name: str) -> bool:
    return (
        name in reference.attribute_docs(cls)
        or re.search(rf"`{name}\b", f"{cls.__doc__} {cls.__init__.__doc__}") is not None
    )


def test_every_parameter_of_a_public_function_has_a_meaning() -> None:
    assert reference.undescribed() == [], (
        "name it in the docstring as `name`, or, where many functions share it, in docs/parameters.py"
    )


def test_every_public_name_has_an_entry(pages: dict[str, str]) -> None:
    listed = {line.split("(")[0].split(":")[0] for line in LIST.read_text().splitlines() if " is " not in line}
    packages = "|".join(sorted(("actors", "broker", "kafka", "metrics", "spark", "testing", "tracing", "windows")))
    top = {name for name in listed if re.fullmatch(rf"streamactors\.(?:(?:{packages})\.)?\w+", name)}
    described = {f"{each.package}.{each.name}" for each in reference.names()}
    errors = {
        name
        for name in top - described
        if re.search(r"Error|Failed|Termination|Overflow|Reached|Element|Timeout", name)
    }
    left = {name for name in top - described - errors if not is_error_or_foreign(name)}
    assert left == set()
    for each in reference.names():
        assert f"\n## {each.name}\n" in pages[f"{each.page}.md"]


def is_error_or_foreign(name: str) -> bool:
    """Errors are on docs/errors.md, and the messages of Thespian in its own documentation."""
    package, _, last = name.rpartition(".")
    value = getattr(__import__(package, fromlist=[last]), last)
    of = getattr(value, "__module__", "")
    return not of.startswith("streamactors") or (inspect.isclass(value) and issubclass(value, BaseException))


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("TopologyStream", ("select_key", "group_by", "repartition", "join_table", "process", "to")),
        ("QueryableStore", ("get", "items", "windows")),
    ],
)
def test_what_a_topology_or_a_control_returns_has_a_section(
    pages: dict[str, str], name: str, methods: tuple[str, ...]
) -> None:
    _, _, after = pages["windows.md"].partition(f"\n## {name}\n")
    section = after.partition("\n## ")[0]
    assert [method for method in methods if f"\n### {name}.{method}\n" not in section] == []


@pytest.mark.parametrize(
    ("setting", "row"),
    [
        ("max_buffered_bytes", "| `int` | `33554432 (32 MiB)` | bytes | The bytes buffered for all partitions together."),
        ("poll_interval_ms", "| `int` | `50` | milliseconds | The pause between two polls while no source has demand. |"),
        ("bootstrap_servers", "| `str` | required | — |"),
    ],
)  # fmt: skip
def test_a_setting_has_its_type_default_unit_and_meaning(setting: str, row: str, pages: dict[str, str]) -> None:
    section = pages["settings.md"].partition("\n## ConsumerSettings\n")[2]
    assert f"| `{setting}` {row}" in section


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("streams", "## RateMeter"),
        ("streams", "## FlowMonitor"),
        ("testing", "### kafka_topic"),
        ("kafka", "### Consumer.records"),
    ],
)
def test_what_no_other_page_names_is_in_the_reference(page: str, heading: str, pages: dict[str, str]) -> None:
    assert f"\n{heading}\n" in pages[f"{page}.md"]


def sample(
    settings: ConsumerSettings, wait: Duration = "5s", *, low_bytes: int = 4 << 20, other: str | None = None
) -> None:
    """Do nothing. `wait`: how long. The loop reads less than `low_bytes` at once."""


def by_name(function: Callable[..., object]) -> dict[str, Parameter]:
    return {each.name: each for each in parameters(function)}


def test_a_parameter_is_described_by_its_annotation_its_name_and_the_docstring() -> None:
    found = by_name(sample)
    assert found["wait"] == Parameter(
        "wait", "Duration", "'5s'", 'a duration: `"5s"`, a timedelta, or seconds', "how long."
    )
    assert (found["low_bytes"].unit, found["low_bytes"].default) == ("bytes", "4194304 (4 MiB)")
    assert found["low_bytes"].meaning == "The loop reads less than `low_bytes` at once."
    assert (found["other"].type, found["other"].default, found["other"].meaning) == (
        "str or None",
        "None",
        "The other stream or table.",
    )


@pytest.mark.parametrize("method", ["isr", "leader", "await_isr"])
def test_a_parameter_with_the_name_of_a_method_of_its_class_is_the_parameter(method: str) -> None:
    # the class says that its method `partition` disturbs the nodes
    described = parameters(getattr(Cluster, method), "Cluster", Cluster)
    assert {each.name: each.meaning for each in described}["partition"] == "The number of the partition."


def test_the_lines_of_a_contract_become_a_list() -> None:
    contract = "Emit x.\n\nOnce.\nEmits when: asked.     Completes when: never,\nor later."
    assert as_markdown(contract) == [
        "Emit x.", "", "Once.", "", "- **Emits when**: asked.", "- **Completes when**: never,", "or later.", "",
    ]  # fmt: skip
