"""A digest of the code behind a result, so that a cached one is not believed after a change."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from newnormal.experiments.admission import DEFAULT, admit

__all__ = ["fitting_code", "judging_code"]

# What turns samples into figures. Reading, writing, showing and the models' register do not.
_COUNTED = tuple(
    f"newnormal.{part}"
    for part in (
        *("kernels", "core", "thresholds", "alarms", "trust", "detector", "models.", "metrics"),
    )
)
_CHOOSING = "newnormal.tuning"  # counts where the detector chooses for itself
_FITTING, _JUDGING = "newnormal.experiments.rows", "newnormal.experiments.judging"


@cache
def fitting_code(model: str) -> str:
    """Return a digest of the code that fits `model` and runs it.

    It is the code of the model and the detector and of all they import that counts. Comments,
    docstrings and layout do not count: they change no figure.
    """
    counted = (*_COUNTED, _CHOOSING) if model == DEFAULT else _COUNTED
    roots = ("newnormal.detector", admit(model).__module__, _FITTING)
    return _digest(_reached(*roots, counted=counted))


@cache
def judging_code() -> str:
    """Return a digest of the code that makes a run into figures."""
    return _digest(_reached("newnormal.metrics") | _reached(_JUDGING))


def _reached(*roots: str, counted: tuple[str, ...] = _COUNTED) -> dict[str, Path]:
    """Return the files of the given modules and of those they import that count, by module."""
    waiting, seen = list(roots), dict[str, Path]()
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in seen or path is None:
            continue
        seen[name] = path
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
                waiting += [each for each in names if each.startswith(counted)]
            elif isinstance(node, ast.Import):
                waiting += [each.name for each in node.names if each.name.startswith(counted)]
    return seen


@cache
def _file(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # not a module but a name in one
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _digest(files: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for module in sorted(files):
        digest.update(module.encode())
        digest.update(_bare(files[module].read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def _bare(source: str) -> str:
    """Return the code alone.

    >>> print(_bare('"what it does"; x = 1  # why'))
    x = 1
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
