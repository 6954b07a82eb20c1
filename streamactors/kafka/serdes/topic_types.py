"""What a step of a graph knows of the records of topics: their serdes, for documents that describe the graph.

A function that reads or writes records has its TopicTypes in the attribute `topic_types`; of a bound method, the object has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TopicTypes:
    """Records that are received or sent. `topic`: None for the topics of the source or sink beside the step. `key`, `value`: as given by the user:
    a class, the name of a serde, a Serde or a function; None is bytes."""

    action: Literal["receive", "send"]
    topic: str | None
    key: Any = None
    value: Any = None
    title: str = ""


def told(fn: F, *types: TopicTypes) -> F:
    """Return `fn` with what it knows of topics."""
    fn.topic_types = types  # type: ignore[attr-defined]  # a function takes attributes
    return fn


def types_of(stage: Any) -> Iterable[TopicTypes]:
    """Return what the function of a stage knows; nothing for other stages."""
    fn = getattr(stage, "fn", None)
    found = getattr(fn, "topic_types", None) or getattr(getattr(fn, "__self__", None), "topic_types", None)
    return found or ()
