"""The kinds of parts, for mix-ins: the classes import the mix-ins, so the mix-ins cannot import the classes.

In signatures a mix-in names the stand-ins below; the stubs that `tools/operator_stubs.py` writes name the classes. To make a part of
another kind a mix-in calls `part`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Generic

from streamactors.dsl.typevars import Ctx, CtxIn, In, Mat, Out


class Source(Generic[Out, Mat]):
    """Stands for streamactors.dsl.source.Source."""


class Flow(Generic[In, Out, Mat]):
    """Stands for streamactors.dsl.flow.Flow."""


class Sink(Generic[In, Mat]):
    """Stands for streamactors.dsl.sink.Sink."""


class WithSink(Generic[Mat]):
    """Stands for what a part becomes with a sink after it: a source a RunnableGraph, a flow a Sink."""


class SourceWithContext(Generic[Out, Ctx, Mat]):
    """Stands for streamactors.dsl.context.with_context.SourceWithContext."""


class FlowWithContext(Generic[In, CtxIn, Out, Ctx, Mat]):
    """Stands for streamactors.dsl.context.with_context.FlowWithContext."""


class SubFlow(Generic[Out, Mat]):
    """Stands for streamactors.dsl.sub_flow.SubFlow."""


HOMES: Final = {
    "Source": "streamactors.dsl.source",
    "Flow": "streamactors.dsl.flow",
    "Sink": "streamactors.dsl.sink",
    "RunnableGraph": "streamactors.dsl.runnable",
    "SourceWithContext": "streamactors.dsl.context.with_context",
    "FlowWithContext": "streamactors.dsl.context.with_context",
    "SubFlow": "streamactors.dsl.sub_flow",
}
"""The modules of the classes that the stand-ins represent."""


def part(kind: type, *arguments: Any) -> Any:
    """Return a part, of the class that the stand-in `kind` represents; most are made of a blueprint (`Module`)."""
    return getattr(import_module(HOMES[kind.__name__]), kind.__name__)(*arguments)
