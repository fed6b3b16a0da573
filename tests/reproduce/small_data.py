"""Small data sets in the benchmarks' own form, and what their pages have in common."""

from pathlib import Path

import numpy as np

from newnormal.types import Floats


def write_machine(root: Path, stream: str, train: Floats, test: Floats, labels: np.ndarray) -> None:
    """Write a stream of SMD."""
    for part, rows in (("train", train), ("test", test), ("test_label", labels[:, None])):
        (root / "SMD" / part).mkdir(parents=True, exist_ok=True)
        np.savetxt(root / "SMD" / part / f"machine-{stream}.txt", rows, delimiter=",", fmt="%.6g")


def check_tables(page: str, least: int = 1) -> None:
    """Check that a page has so many tables, each with rows of one width."""
    tables = [block for block in page.split("\n\n") if block.startswith("|")]
    assert len(tables) >= least
    for block in tables:
        assert len({line.count(" | ") for line in block.splitlines()}) == 1
