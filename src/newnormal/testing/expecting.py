"""What checks share: expectations, calls that must work, and what all connectors promise."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from newnormal.detector import M2N2
from newnormal.io.options import Connector
from newnormal.types import Bools, Floats, Verdict


def plant(samples: int, channels: int, seed: int) -> Floats:
    """Return one slow wave seen by several sensors, every other one upside down, and noise."""
    rng = np.random.default_rng(seed)
    wave = np.sin((np.arange(samples) + rng.integers(1000)) / 8)[:, None]
    signs = np.where(np.arange(channels) % 2 == 0, 1.0, -1.0)
    series: Floats = wave * signs + 0.05 * rng.normal(size=(samples, channels))
    return series


def with_anomalies(series: Floats) -> tuple[Floats, Bools]:
    """Return a copy in which some samples are far from all others, and which those are."""
    spoiled, labels = series.copy(), np.zeros(len(series), dtype=np.bool_)
    for row in range(20, len(series) - 4, 20):
        spoiled[row : row + 2] += 6.0
        labels[row : row + 2] = True
    return spoiled, labels


def stepwise(detector: M2N2, series: Floats) -> list[Verdict]:
    """Return the verdicts of a series whose samples are judged one by one."""
    return [verdict for sample in series for verdict in detector.step(sample)] + detector.flush()


T = TypeVar("T")


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise an AssertionError with a message unless a condition holds."""
    if not holds:
        raise AssertionError(message)


def expect(holds: bool | np.bool_, expected: str, found: object) -> None:
    """Raise an AssertionError with what was expected and found unless a condition holds."""
    require(holds, f"expected {expected}, found {found}")


def call(expected: str, method: Callable[..., Any], *arguments: object) -> Any:
    """Return what a method returns; its exception becomes an AssertionError."""
    try:
        return method(*arguments)
    except Exception as error:
        raise AssertionError(
            f"expected {expected}, found {type(error).__name__}: {error}"
        ) from error


def call_for_none(name: str, expected: str, method: Callable[..., Any], *arguments: object) -> None:
    """Call a method, which is called `name` in errors and must return None."""
    returned = call(expected, method, *arguments)
    expect(returned is None, f"{name} to return None", repr(returned))


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not True or False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_kind(made: object, kind: type) -> None:
    """Check that an object is of a public class of `newnormal.io`."""
    name = f"a subclass of newnormal.io.{kind.__name__}"
    expect(isinstance(made, kind), name, type(made).__name__)


def check_connector(connector: Connector, kind: type) -> None:
    """Check class and the sentence of `check`, which all connectors have."""
    check_kind(connector, kind)
    sentence = call("check to work", connector.check)
    good = isinstance(sentence, str) and sentence != ""
    expect(good, "check to return a sentence, or to raise", sentence)


def check_down(send: Callable[[T], None], sent: T, what: str, refusal: Any = ()) -> None:
    """Check that a sink without a receiver raises an error, other than that of a refusal."""
    where = "if the receiver is not there"
    try:
        send(sent)
    except refusal as error:
        raise AssertionError(
            f"expected send to raise SinkDownError {where}, found "
            f"{type(error).__name__}: the {what} would be lost: {error}"
        ) from error
    except Exception:  # noqa: BLE001 - any other will do
        return
    raise AssertionError(
        f"expected send to raise an error {where}, found that it returned: the {what} would be lost"
    )


def check_snapshot(take: Callable[[], Any]) -> dict[str, Any]:
    """Return a snapshot as it comes back from a file."""
    snapshot = take()
    expect(isinstance(snapshot, dict), "snapshot to return a dictionary", type(snapshot).__name__)
    try:
        text = json.dumps(snapshot, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"expected a snapshot of JSON values, found {snapshot!r}: {error}"
        ) from None
    back: dict[str, Any] = json.loads(text)
    same = back == snapshot
    expect(same, f"a snapshot that JSON gives back unchanged, {back!r}", repr(snapshot))
    again = take()
    expect(again == snapshot, f"the same snapshot when asked twice, {snapshot!r}", repr(again))
    return back


def check_other(taken: object) -> None:
    """Check what `resume` returned for the snapshot of another input."""
    expect(taken is False, "resume to return False for the snapshot of another input", taken)
