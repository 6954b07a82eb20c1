"""The users' language: Source, Flow, Sink, GraphDSL.

The classes get their methods from mix-ins: operators/ (Source and Flow), sources/ and sinks/ (constructors), context/ (elements with a
context). A method makes a stage and joins it to the part's blueprint. graph/ wires parts into graphs; kinds.py breaks import cycles. A method
imports its stage when it is called, so that a program loads the stages that it uses."""
