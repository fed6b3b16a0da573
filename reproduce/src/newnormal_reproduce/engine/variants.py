"""The variants of an ablation: one fitted detector frozen, detrended, adapted, or both."""

from collections.abc import Sequence
from dataclasses import dataclass

from newnormal.errors import ParameterError


@dataclass(frozen=True)
class Variant:
    """Which of the method's two parts are on."""

    name: str
    detrend: bool
    adapt: bool


FROZEN = Variant("frozen", detrend=False, adapt=False)
BOTH = Variant("DT+TTA", detrend=True, adapt=True)
VARIANTS = (
    FROZEN,
    Variant("DT", detrend=True, adapt=False),
    Variant("TTA", detrend=False, adapt=True),
    BOTH,
)


def variants_named(names: Sequence[str] | None = None) -> tuple[Variant, ...]:
    """Return the variants with these names, or all four, in the paper's order.

    >>> variants_named(["DT"])
    (Variant(name='DT', detrend=True, adapt=False),)
    """
    every = [variant.name for variant in VARIANTS]
    for name in names or ():
        if name not in every:
            raise ParameterError(
                f"variants: expected variants of the ablation, found {name!r}",
                hint=f"they are {', '.join(every)}",
            )
    return tuple(variant for variant in VARIANTS if names is None or variant.name in names)


def variant_named(name: str) -> Variant:
    """Return the variant with this name."""
    (variant,) = variants_named([name])
    return variant
