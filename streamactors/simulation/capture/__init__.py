"""Capture and replay: what a live group read, in one file, and a graph that reads it again under virtual time.

    capsule = read_capsule(Path("payments.capsule"))
    assert not replay(capsule, graph).failures

`taking.py` reads a cluster (`ranges.py` says from where, `reading.py` reads, `limiting.py` keeps to the limits, `redacting.py` hides values) and
makes a `capsule.py`; `capsule_file.py` writes and reads it. `loading.py` puts a capsule into a simulated cluster, `replaying.py` runs a graph on it,
`looking.py` hears what each stage pushes, `sent.py` what it sends, and `comparing.py` compares the results of two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.simulation.capture.capsule import Capsule as Capsule
    from streamactors.simulation.capture.capsule import CapturedRecord as CapturedRecord
    from streamactors.simulation.capture.capsule_file import read_capsule as read_capsule
    from streamactors.simulation.capture.capsule_file import write_capsule as write_capsule
    from streamactors.simulation.capture.comparing import Difference as Difference
    from streamactors.simulation.capture.comparing import differences as differences
    from streamactors.simulation.capture.loading import Begin as Begin
    from streamactors.simulation.capture.replaying import Replayed as Replayed
    from streamactors.simulation.capture.replaying import Step as Step
    from streamactors.simulation.capture.replaying import replay as replay
    from streamactors.simulation.capture.taking import capture as capture

__getattr__, __dir__ = lazy_names(__name__)
