"""How many cases a long test runs: few by default, a slice of all of them in `make soak`."""

import os


def count(small: int, full: int) -> int:
    """Return `small`, or `full` times NEWNORMAL_SOAK where that is set (1: the full count)."""
    share = float(os.environ.get("NEWNORMAL_SOAK") or 0.0)
    return max(small, round(share * full))


def numbers(small: int, full: int) -> range:
    """Return the numbers of a test's cases: the first ones, or NEWNORMAL_SLICE (FIRST:END)."""
    first, _, end = os.environ.get("NEWNORMAL_SLICE", "").partition(":")
    return range(int(first), int(end)) if end else range(count(small, full))
