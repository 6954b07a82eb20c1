"""Marks: how a run knows which input is done.

Sources emit marks (`source_marks.py`), the plan (`engine/planning/`) finds their ways and checks the stages on them, and sinks report them done
(`progress.py`). A run that commits for several parts at once stops them at one mark (`cut_state.py`; a part's own side: `part_state.py`).
`ownership.py` is for sinks that keep the positions of their sources themselves."""

from streamactors.engine.marks.marks import EXACT as EXACT
from streamactors.engine.marks.marks import EXACT_MEMORY as EXACT_MEMORY
from streamactors.engine.marks.marks import Handling as Handling
