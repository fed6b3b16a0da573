"""How the pages of `newnormal_reproduce.ours.drift` write names and figures."""

from __future__ import annotations

from collections.abc import Sequence

from newnormal_reproduce.engine.published import Figure


def listed(names: Sequence[str]) -> str:
    """Return names as a list in English.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def percent(figure: Figure) -> str:
    """Return a share as a percentage.

    >>> percent(Figure(0.0125, 0.001)), percent(Figure(0.5, None))
    ('1.2% ± 0.1', '50.0%')
    """
    spread = "" if figure.std is None else f" ± {100 * figure.std:.1f}"
    return f"{figure.mean:.1%}{spread}"


def two(figure: Figure) -> str:
    """Return a figure with two decimals.

    >>> two(Figure(1.0, 0.125)), two(Figure(0.5, None))
    ('1.00 ± 0.12', '0.50')
    """
    return f"{figure.mean:.2f}" + ("" if figure.std is None else f" ± {figure.std:.2f}")


def short(kind: str) -> str:
    """Return the name of a kind of generated stream without the common prefix.

    >>> short("drift/wave-level")
    'wave-level'
    """
    return kind.partition("/")[2]
