"""The kinds of parts, for mix-ins: the classes import the mix-ins, so the mix-ins cannot import the classes.

In signatures a mix-in names the stand-ins below; the stubs that `tools/operator_stubs.py` writes name the classes. To make a part of
another kind a mix-in calls `part`; the classes register themselves for this."""

from __future__ import annotations

from typing import Any, Generic

from streamactors.dsl.typevars import Ctx, CtxIn, In, Mat, Out


class Source(Generic[Out, Mat]):
    """Stands for streamactors.dsl.source.Source."""


class Flow(Generic[In, Out, Mat]):
    """Stands for streamactors.dsl.flow.Flow."""


class Sink(Generic[In, Mat]):
    """Stands for streamactors.dsl.sink.Sink."""


class Ended(Generic[Mat]):
    """Stands for what a part becomes with a sink behind it: a source a RunnableGraph, a flow a Sink."""


class SourceWithContext(Generic[Out, Ctx, Mat]):
    """Stands for streamactors.dsl.context.with_context.SourceWithContext."""


class FlowWithContext(Generic[In, CtxIn, Out, Ctx, Mat]):
    """Stands for streamactors.dsl.context.with_context.FlowWithContext."""


class SubFlow(Generic[Out, Mat]):
    """Stands for streamactors.dsl.sub_flow.SubFlow."""


_CLASSES: dict[str, type] = {}


def registered(cls: type) -> None:
    """Let `part` make parts of this class, which has the name of a stand-in."""
    _CLASSES[cls.__name__] = cls


def part(kind: type, *arguments: Any) -> Any:
    """Return a part, of the class that the stand-in `kind` stands for; most are made of a blueprint (`Module`)."""
    return _CLASSES[kind.__name__](*arguments)
