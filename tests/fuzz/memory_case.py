"""Prints digests of columns of runs: ``python -m tests.fuzz.memory_case SEED FIRST END``."""

import hashlib
import sys

import numpy as np

from tests.fuzz.paths import case_of, followed, fresh, quiet


def main() -> None:
    """Print one line for each case and way, a digest a column."""
    seed, first, end = map(int, sys.argv[1:])
    with quiet():
        for index in range(first, end):
            case = case_of(seed, index)
            for way in ("run", "step", "pieces"):
                columns = followed(case, way, fresh(case.name))
                digests = []
                for name, values in columns.items():
                    content = np.asarray(values)
                    raw = repr(values).encode() if content.dtype.kind == "U" else content.tobytes()
                    digests.append(f"{name}={hashlib.sha256(raw).hexdigest()[:12]}")
                print(f"case {index} ({case.name}), {way}:", "; ".join(digests))


if __name__ == "__main__":
    main()
