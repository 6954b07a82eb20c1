"""Base classes of the stages' logics, and a queue with marks.

PassingLogic passes elements on, EmittingLogic may have more results than demand; both extend the engine's FlowLogic. ElementwiseLogic
calls user code for each element and extends EmittingLogic. InnerLogic runs a flow or a sink inside a stage; later.py makes that part while
the stream runs. Stages of every room use them."""
