"""Settings of all tests. Hypothesis judges results, never times: a shared machine may hold any example up for a second."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
