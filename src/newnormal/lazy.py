"""Public names that are imported when first used, and the lists of public names."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


def lazy_names(module: str, *own: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__`, which has `__all__` too, and `__dir__` of a module.

    `module`: its name. `own`: public names that it assigns. The others are those that it imports
    as themselves, which may be for type checkers only: they are read when one is first used.
    """

    @cache
    def homes() -> dict[str, str | None]:
        import ast

        tree = ast.parse(Path(sys.modules[module].__file__ or "").read_bytes())
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        return {
            name.name: node.module
            for node in imports
            for name in node.names
            if name.asname == name.name
        }

    def public() -> list[str]:
        return sorted((*homes(), *own))

    def get(name: str) -> object:
        if name == "__all__":
            return public()
        if (home := homes().get(name)) is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return get, public
