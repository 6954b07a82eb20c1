"""Loaded by every Python process that a test starts, while the tests are recorded: its functions are recorded too."""

import os

if "MUTATION_HITS" in os.environ:
    from mutation import hits

    if not os.environ.pop("MUTATION_PARENT", ""):
        hits.record_in_child()
