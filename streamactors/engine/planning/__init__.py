"""The plan of a run: a blueprint flattened, its steps fused, its islands cut, and what marks need checked.

`plan.py` calls the others. `cycles.py`, `sides.py`, `mark_needs.py` and `mark_plan.py` check the plan or add to it. `picture.py` draws it as Mermaid."""
