"""Public names that are imported when first used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    module: str, public: Sequence[str], modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module.

    `module`: its name. `public`: its `__all__`. `modules`: by the module that defines them, names
    separated by spaces.
    """
    homes = {name: home for home, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted(public)
