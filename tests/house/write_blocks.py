"""Write `kernels/blocks.py` from the lines of the arrays: ``python -m tests.house.write_blocks``.

Compiled code takes the arrays of a stream out of a block of memory. Numba keeps what it compiled by
source file, so the views are source and not made at run time. A test compares the file.
"""

import re
import subprocess
import sys
from pathlib import Path

import newnormal
from newnormal.core.state import StreamState
from newnormal.kernels.stream import FitArrays, Shadow
from newnormal.types.tables import NUMBERS, Array, declared, lines

PATH = Path(newnormal.__file__).parent / "kernels" / "blocks.py"
RUFF = Path(sys.executable).parent / "ruff"

# The name of each size in `Dims`, by its letter in a shape.
DIMS = {
    "C": "channels",
    "J": "experts",
    "L": "window",
    "P": "weights",
    "V": "votes",
    "E": "expert_votes",
    "R": "rank",
    "D": "windows_rank",
    "H": "shapes",
    "B": "bins",
    "W": "lags",
    "N": "kept_scores",
    "M": "kept_positions",
}
_LETTERS = {
    **{letter: f"dims.{name}" for letter, name in DIMS.items()},
    "T": "dims.experts, dims.channels",
}
_READERS = {"f8": "floats", "f4": "floats32", "i8": "ints", "M8[ns]": "times", "?": "bools"}
_CASTS = {int: "int({})", float: "{}"}

# What is viewed: a function, the block it is for, and where in the block.
VIEWS = (
    ("step_at", StreamState, "model.step"),
    ("committee_at", StreamState, "model.own"),
    ("times_at", StreamState, "times"),
    ("learn_threshold_at", StreamState, "learn_threshold"),
    ("alarm_at", StreamState, "alarm"),
    ("log_at", StreamState, "log"),
    ("silence_at", StreamState, "silence"),
    ("channel_at", StreamState, "channel"),
    ("observed_at", StreamState, "observed"),
    ("drift_at", StreamState, "drift"),
    ("review_at", StreamState, "review"),
    ("changes_at", StreamState, "changes"),
    ("last_quiet_at", StreamState, "last_quiet"),
    ("shadow_scores_at", Shadow, "scores"),
    ("shadow_counts_at", Shadow, "counts"),
    ("step_params_at", FitArrays, "step"),
    ("committee_params_at", FitArrays, "model"),
    ("alarm_params_at", FitArrays, "alarm"),
    ("tail_chances_at", FitArrays, "tail_chances"),
    ("drift_params_at", FitArrays, "drift"),
    ("channel_params_at", FitArrays, "channel"),
    ("watched_at", FitArrays, "watched"),
    ("limits_at", FitArrays, "limits"),
)

_HEAD = '''"""Where the arrays of a stream are in its blocks: written by a command.

``python -m tests.house.write_blocks`` makes it from the lines of the arrays.

A stream has a block of what changes and one of what fitting left; a stream with a pending change
has one more, its shadow's. Streams of one shape have their arrays at the same offsets, `at`, in the
order of the lines that declare them. The functions here give the tuples of arrays that the kernels
of one stream take.
"""

from typing import NamedTuple

import numpy as np

from newnormal.kernels.compiled import inlined
from newnormal.kernels.memory import (
    bools,
    floats,
    floats2,
    floats3,
    floats32,
    floats32_2,
    ints,
    ints2,
    times,
)
{imports}
from newnormal.types import Bools, Floats, Ints


class Dims(NamedTuple):
    """The sizes that streams of one shape share."""

{dims}


LETTERS = {letters}  # of these sizes in the shapes of arrays
'''


def size(axis: int | str) -> str:
    """Return the length of an axis as code."""
    if isinstance(axis, int):
        return str(axis)
    match = re.fullmatch(r"(\d*)([A-Z])", axis)
    assert match is not None
    return f"{match[1]} * {_LETTERS[match[2]]}" if match[1] else _LETTERS[match[2]]


def view(array: Array, position: int) -> str:
    """Return the code of one array."""
    shape = ", ".join(map(size, array.shape))
    axes = shape.count(",") + 1
    reader = _READERS[array.dtype]
    many = "" if axes == 1 else f"_{axes}" if reader[-1].isdigit() else str(axes)
    return f"{reader}{many}(base + at[{position}], {shape})"


class Writer:
    """Writes the function of one view."""

    def __init__(self, block: type) -> None:
        self.positions = {name: k for k, name in enumerate(declared(block))}
        self.used: set[type] = set()
        self.before: list[str] = []

    def code(self, kind: type, path: str) -> str:
        """Return the code of a tuple of arrays."""
        kind = kind if "_fields" in vars(kind) else kind.__mro__[1]  # without its methods
        self.used.add(kind)
        parts, at = [], 0
        own = f"{kind.__name__.lower()}_numbers"
        if any(line.number for line in lines(kind)):
            count = sum(line.number is not None for line in lines(kind))
            position = self.positions[f"{path}.{NUMBERS}"]
            self.before.append(f"{own} = floats(base + at[{position}], {count})")
        for line in lines(kind):
            if line.array is not None:
                parts.append(view(line.array, self.positions[f"{path}.{line.name}"]))
            elif line.number is not None:
                cast = _CASTS.get(line.kind, f"np.{getattr(line.kind, '__name__', '')}({{}})")
                parts.append(cast.format(f"{own}[{at}]"))
                at += 1
            else:
                parts.append(self.code(line.kind, f"{path}.{line.name}"))
        return f"{kind.__name__}({', '.join(parts)},)"


def function(name: str, block: type, path: str) -> tuple[str, set[type]]:
    """Return the code of a view, and the classes it names."""
    writer = Writer(block)
    line = target(block, path)
    if isinstance(line, Array):
        made, kind = view(line, writer.positions[path]), {"i8": "Ints", "?": "Bools"}
        returns = kind.get(line.dtype, "Floats")
    else:
        made = writer.code(line, path)
        returns = made.partition("(")[0]
    body = "\n    ".join([*writer.before, f"return {made}"])
    title = f'"""Return `{path}` of a {block.__name__}."""'
    unused = "" if "dims." in made else "  # noqa: ARG001"
    return (
        f"\n\n@inlined\ndef {name}(base: int, at: Ints, dims: Dims) -> {returns}:{unused}\n"
        f"    {title}\n    {body}\n",
        writer.used,
    )


def target(block: type, path: str) -> type | Array:
    """Return the class or the line at a path of a block."""
    kind: type | Array = block
    for name in path.split("."):
        assert not isinstance(kind, Array)
        (line,) = [each for each in lines(kind) if each.name == name]
        kind = line.array if line.array is not None else line.kind
    return kind


def written() -> str:
    """Return the whole file."""
    made = [function(*each) for each in VIEWS]
    used = sorted(set().union(*(classes for _, classes in made)), key=lambda each: each.__name__)
    imports = "\n".join(f"from {each.__module__} import {each.__name__}" for each in used)
    dims = "\n".join(f"    {name}: int" for name in DIMS.values())
    head = _HEAD.format(imports=imports, dims=dims, letters=f'"{"".join(DIMS)}"')
    text = head + "".join(code for code, _ in made)
    for command in (["check", "--fix", "-q", "--select", "I,F401"], ["format", "-q"]):
        done = subprocess.run(
            [str(RUFF), *command, "--stdin-filename", PATH, "-"],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


if __name__ == "__main__":
    PATH.write_text(written())
