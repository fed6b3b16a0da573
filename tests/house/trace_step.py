"""Print the files that `step` enters behind `core/loop.py`: one JSON list a step.

To be run with NUMBA_DISABLE_JIT=1, so that kernels are Python and can be traced.
"""

import json
import sys
from pathlib import Path
from types import FrameType

import numpy as np

import newnormal
from newnormal.types import Floats

SOURCE = Path(newnormal.__file__).parent
LOOP = "core/loop.py"


def files_behind_the_loop(detector: newnormal.Detector, sample: Floats) -> list[str]:
    """Step until a verdict is final; return the files entered behind the loop, in order."""
    found: list[str] = []
    inside = 0  # frames of the loop that are open

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal inside
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return
        name = str(path.relative_to(SOURCE))
        if event == "call":
            inside += name == LOOP
            if inside and name not in found:
                found.append(name)
        elif event == "return":
            inside -= name == LOOP

    verdicts: list[newnormal.Verdict] = []
    while not verdicts:
        found.clear()
        sys.setprofile(trace)
        try:
            verdicts = detector.step(sample)
        finally:
            sys.setprofile(None)
    return found


def main() -> None:
    """Trace a quiet step, and one that opens an alarm."""
    loaded = newnormal.load(sys.argv[1])
    assert isinstance(loaded, newnormal.Detector)
    detector = loaded.reset()
    usual = detector.trend_
    while not detector.step(usual):  # fill the window
        pass
    quiet = files_behind_the_loop(detector, usual)
    assert detector.alarm_ is None
    assert detector.take_events() == []
    alarming = files_behind_the_loop(detector, usual + 100 * (1 + np.abs(usual)))
    assert detector.take_events()[0].kind == "opened"
    print(json.dumps(quiet))
    print(json.dumps(alarming))


if __name__ == "__main__":
    main()
