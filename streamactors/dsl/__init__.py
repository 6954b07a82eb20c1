"""The users' language: Source, Flow, Sink, GraphDSL.

The classes get their methods from mix-ins: operators/ (Source and Flow), sources/ and sinks/ (constructors), context/ (elements with a
context). A method makes a stage and joins it to the part's blueprint. graph/ wires parts into graphs; kinds.py breaks import cycles."""

from streamactors.dsl import sub_flow as _sub_flow  # noqa: F401  # registers its class (kinds.py)
from streamactors.dsl.context import with_context as _with_context  # noqa: F401  # registers its classes (kinds.py)
