"""Digests of the code behind a result, so that a result of other code is not reused."""

import ast
import hashlib
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from newnormal.models import find
from newnormal_reproduce.engine.published import DEFAULT

# Every module of the package counts but these, so that a new or renamed one cannot drop out.
# They read data (a digest of the data is in the key), write, draw, or hold plain data.
_UNCOUNTED = tuple(
    f"newnormal.{part}"
    for part in ("cli", "datasets", "errors", "packing", "plots", "state", "tabular", "types")
)
# The package itself and the register of models import nothing that computes.
_REGISTERS = ("newnormal", "newnormal.models", "newnormal.models.registry")
_CHOOSING = "newnormal.tuning"  # counts only for the detector that chooses its settings
_FIT = "newnormal_reproduce.engine.fit"
_EVALUATION = "newnormal_reproduce.engine.evaluation"


@cache
def fitting_code(model: str) -> str:
    """Return a digest of the code that fits `model` and runs it.

    It covers the code of the model and the detector and of all they import. Comments, docstrings
    and layout do not count: they change no figure.
    """
    return _digest(_fitting_files(model))


@cache
def evaluation_code() -> str:
    """Return a digest of the code that turns a run into figures."""
    return _digest(_reached("newnormal.metrics", _EVALUATION))


@cache
def code_of(*modules: str) -> str:
    """Return a digest of modules and of what they import that counts."""
    return _digest(_reached(*modules))


def _fitting_files(model: str) -> dict[str, Path]:
    if model == DEFAULT:
        return _reached("newnormal.detector", _FIT)
    # An adapter is made when it is asked for, so that its own module is not where its code is.
    owners = {kind.__module__ for kind in find(model).__mro__}
    foreign = [owner for owner in owners if owner.partition(".")[0] not in sys.stdlib_module_names]
    return _reached("newnormal.detector", _FIT, *foreign, without=(_CHOOSING,))


def _reached(*roots: str, without: tuple[str, ...] = ()) -> dict[str, Path]:
    """Return the files of the given modules and of those they import that count, by module."""
    waiting, seen = list(roots), dict[str, Path]()
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in seen or path is None:
            continue
        seen[name] = path
        waiting += [module for module in _imports(path) if _counts(module, without)]
    return seen


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def _counts(module: str, without: tuple[str, ...]) -> bool:
    """Return whether a module of the package can change a figure.

    >>> _counts("newnormal.kernels.step", ()), _counts("newnormal.cli.app", ())
    (True, False)
    """
    return (
        module.startswith("newnormal.")
        and module not in _REGISTERS
        and not any(
            module == prefix or module.startswith(f"{prefix}.") for prefix in _UNCOUNTED + without
        )
    )


@cache
def _file(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name in a module, not a module
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _digest(files: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for module in sorted(files):
        digest.update(module.encode())
        digest.update(_bare(files[module].read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def _bare(source: str) -> str:
    """Return the code without docstrings, comments and layout.

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
