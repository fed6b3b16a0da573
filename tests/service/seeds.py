"""Many random cases in one test: a case that fails names its seed."""

from collections.abc import Callable, Iterable


def each_seed(seeds: Iterable[int], case: Callable[[int], None]) -> None:
    """Call `case` with each seed."""
    for seed in seeds:
        try:
            case(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
