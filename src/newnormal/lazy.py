"""Public names that are imported when first used."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module


def lazy_names(
    module: str, public: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module.

    `module`: its name. `public`: its `__all__`. Where a name is from is read, when one is first
    used, from the module's imports for type checkers.
    """

    @cache
    def homes() -> dict[str, str | None]:
        import ast
        import inspect

        tree = ast.parse(inspect.getsource(import_module(module)))
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        return {name.name: node.module for node in imports for name in node.names}

    def get(name: str) -> object:
        if name not in public or (home := homes().get(name)) is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return get, lambda: sorted(public)
