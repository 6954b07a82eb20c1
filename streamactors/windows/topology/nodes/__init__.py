"""The nodes of a topology: one class per operator, which makes that operator for a task. What the operators do is in `joins/`, `tables/`
and `operators/`."""
