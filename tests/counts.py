"""How many cases a long test runs: few by default, all of them in `make soak`."""

import os


def count(small: int, full: int) -> int:
    """Return `small`, or `full` times NEWNORMAL_SOAK where that is set (1: the full count)."""
    share = float(os.environ.get("NEWNORMAL_SOAK") or 0.0)
    return max(small, round(share * full))
