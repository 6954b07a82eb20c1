"""Keep: which materialized value is kept when two parts are joined."""

from __future__ import annotations

from typing import TypeVar

from streamactors.engine.stage import NOT_USED, NotUsed

L = TypeVar("L")
R = TypeVar("R")


class Keep:
    """Functions for `via_mat` and `to_mat`, which take any function of two arguments."""

    @staticmethod
    def left(left: L, right: object) -> L:
        """Keep the left part's value."""
        return left

    @staticmethod
    def right(left: object, right: R) -> R:
        """Keep the right part's value."""
        return right

    @staticmethod
    def both(left: L, right: R) -> tuple[L, R]:
        """Keep both, as a pair."""
        return (left, right)

    @staticmethod
    def none(left: object, right: object) -> NotUsed:
        """Keep neither."""
        return NOT_USED
