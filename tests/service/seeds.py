"""Many random cases in one test: a case that fails names its seed."""

from collections.abc import Callable

from tests.counts import count


def each_seed(
    small: int, full: int, case: Callable[[int], None], record: Callable[[str, object], None]
) -> None:
    """Call `case` with 0, 1, 2, ...: `small` of them, `full` in `make soak`."""
    cases = count(small, full)
    record("cases", cases)
    for seed in range(cases):
        try:
            case(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
