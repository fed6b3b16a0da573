"""The detector's options, validated in one place, and durations as text."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeGuard

import numpy as np

from newnormal.errors import ParameterError


class _Default(float):
    """A default that differs from the same number given on purpose."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Default":
        return self


DEFAULT_DECAY = _Default(0.99)
NEVER = "never"  # of accept_after: nothing becomes normal without a person
_LONGEST_UNIT = 100  # characters; also of the name of its channel
_MOST = 1_000_000  # samples of a window, units of a bottleneck
_MOST_SAMPLES = 2**53  # of accept_after
SAMPLES_PER_DAY = 1440  # where a stream has no times

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def duration(value: object, name: str = "duration") -> np.timedelta64:
    """Return a duration, given as text ("90s", "1h30m"), a timedelta, or a number of seconds.

    >>> duration("1h30m")
    np.timedelta64(5400000000000,'ns')
    """
    nanoseconds: float | None = None
    if isinstance(value, str):
        nanoseconds = _parse(value)
    elif isinstance(value, np.timedelta64):
        nanoseconds = None if np.isnat(value) else int(value.astype("timedelta64[ns]").astype(int))
    elif isinstance(value, timedelta):
        nanoseconds = value / timedelta(microseconds=1) * 1000
    elif _is_number(value):
        nanoseconds = float(value) * 1e9
    if nanoseconds is None or not 1 <= nanoseconds < 2**63:
        raise ParameterError(
            f"{name}: expected a duration above zero, found {value!r}",
            hint='write it like "30s", "5min", "6h" or "1d", or pass a timedelta',
        )
    return np.timedelta64(round(nanoseconds), "ns")


def duration_text(value: np.timedelta64) -> str:
    """Return a duration as text that `duration` reads back.

    >>> duration_text(np.timedelta64(90, "s"))
    '1m30s'
    """
    left = int(value.astype("timedelta64[ns]").astype(int))
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, left = divmod(left, _NANOSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def samples_per_day(period: np.timedelta64 | None) -> float:
    """Return how many samples a day has, given the time between two."""
    return float(SAMPLES_PER_DAY if period is None else np.timedelta64(1, "D") / period)


def _parse(text: str) -> float | None:
    total, at = 0.0, 0
    lowered = text.strip().lower()
    for match in _DURATION.finditer(lowered):
        if match.start() != at or match[2] not in _NANOSECONDS:
            return None
        total += float(match[1]) * _NANOSECONDS[match[2]]
        at = match.end()
    return total if at == len(lowered) and at > 0 else None


@dataclass(frozen=True)
class Config:
    """The options of a detector, checked.

    The same names as those of `newnormal.M2N2`, which describes each, with its defaults.
    `threshold` is not among them because it may be an object. `newnormal.Detector` chooses some of
    them.
    """

    window: int = 12
    stride: int | None = None
    fit_stride: int | None = None
    latent: int = 16
    decay: float = DEFAULT_DECAY
    half_life: float | str | timedelta | np.timedelta64 | None = None
    lr: float = 1e-3
    detrend: bool = True
    adapt: bool = True
    model: Any = "mlp"
    epochs: int = 10
    batch: int = 64
    period: float | str | timedelta | np.timedelta64 | None = None
    seed: int = 0
    accept_after: float | str | timedelta | np.timedelta64 | None = None
    units: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        units: Any = {} if self.units is None else self.units
        texts = [*units, *units.values()] if isinstance(units, Mapping) else [None]
        if not all(isinstance(text, str) and 0 < len(text) <= _LONGEST_UNIT for text in texts):
            hint = 'such as {"disk": "B", "temperature": "°C"}, or --units disk=B'
            raise ParameterError(f"units: expected texts by channel, found {units!r}", hint=hint)
        _whole("window", self.window, 1, "the number of samples judged together, such as 12", _MOST)
        _whole("latent", self.latent, 1, "the width of the bottleneck, such as 16", _MOST)
        _whole("epochs", self.epochs, 1, "how often training sees the history, such as 10")
        _whole("batch", self.batch, 1, "windows in one training step, such as 64")
        _whole("seed", self.seed, 0, "any whole number; the same one gives the same result")
        if self.stride is not None:
            _whole("stride", self.stride, 1, "how many samples a judgement waits for")
            if self.window % self.stride:
                fitting = [d for d in range(1, self.window + 1) if self.window % d == 0]
                raise ParameterError(
                    f"stride: expected a divisor of window={self.window}, found {self.stride}",
                    hint=f"choose one of {', '.join(map(str, fitting))}",
                )
        if self.fit_stride is not None:
            _whole("fit_stride", self.fit_stride, 1, "the step between training windows")
        _number(
            "lr",
            self.lr,
            "the size of the learning step; 0 learns nothing",
            least=0.0,
            most=float(np.finfo(np.float32).max),
        )
        _number(
            "decay",
            self.decay,
            "how much of the trend a window keeps, such as 0.99; 1 holds it",
            least=0.0,
            most=1.0,
        )
        if self.half_life is not None:
            self._check_half_life()
        if self.period is not None:
            duration(self.period, "period")
        if self.accept_after is not None:
            self._check_accept_after()
        for name in ("detrend", "adapt"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ParameterError(
                    f"{name}: expected True or False, found {getattr(self, name)!r}",
                    hint=f"{name}=False switches it off",
                )

    @classmethod
    def of(cls, **given: Any) -> "Config":
        """Return the options, with the default for each that may be None and is."""
        optional = ("decay", "epochs", "batch")
        return cls(
            **{
                name: value
                for name, value in given.items()
                if value is not None or name not in optional
            }
        )

    def _check_half_life(self) -> None:
        if not isinstance(self.decay, _Default):
            raise ParameterError(
                f"expected decay or half_life, found both: decay={float(self.decay)!r}, "
                f"half_life={self.half_life!r}",
                hint="leave one out; decay = 0.5 ** (window / half-life in samples)",
            )
        if _is_number(self.half_life):
            _number("half_life", self.half_life, 'samples, or a time such as "6h"', above=0.0)
        else:
            duration(self.half_life, "half_life")

    def _check_accept_after(self) -> None:
        if _is_number(self.accept_after):
            if not 1 <= self.accept_after <= _MOST_SAMPLES and self.accept_after != math.inf:
                raise ParameterError(
                    f"accept_after: expected at least 1 sample, found {self.accept_after!r}",
                    hint='accept_after is samples, or a time such as "1d"; or "never"',
                )
        elif self.accept_after != NEVER:
            try:
                duration(self.accept_after, "accept_after")
            except ParameterError:
                raise ParameterError(
                    f"accept_after: expected samples, a time or 'never', "
                    f"found {self.accept_after!r}",
                    hint='write a time like "6h" or "1d"',
                ) from None

    def judging_stride(self) -> int:
        """Return how many samples a judgement waits for."""
        return self.window if self.stride is None else int(self.stride)

    def training_stride(self) -> int:
        """Return the step between training windows."""
        return self.window if self.fit_stride is None else int(self.fit_stride)

    def decay_per_window(self, period: np.timedelta64 | None) -> float:
        """Return γ: `decay`, or what `half_life` amounts to at the stream's sampling period."""
        if self.half_life is None:
            return float(self.decay)
        return float(0.5 ** (self.window / self._samples("half_life", period)))

    def patience(self, period: np.timedelta64 | None) -> float:
        """Return `accept_after` in samples: a day without it, infinity where it is never."""
        if self.accept_after is None:
            return max(1.0, samples_per_day(period))
        if self.accept_after == NEVER:
            return math.inf
        return max(1.0, self._samples("accept_after", period))

    def _samples(self, name: str, period: np.timedelta64 | None) -> float:
        """Return an option that is a number of samples, or a time, in samples."""
        value = getattr(self, name)
        if _is_number(value):
            return float(value)
        if period is None:
            raise ParameterError(
                f"{name}={value!r} is a time, and the sampling period is not known",
                hint=f"fit on data that has times, pass period=, or give {name} in samples",
            )
        return float(duration(value, name) / period)


def option_as_json(value: object) -> Any:
    """Return an option of a detector as a JSON value."""
    if isinstance(value, float | np.floating) and math.isinf(value):
        return NEVER
    if isinstance(value, timedelta | np.timedelta64):
        return duration_text(duration(value))
    return value.item() if isinstance(value, np.generic) else value


def _is_number(value: object) -> TypeGuard[int | float]:
    # NumPy counts a timedelta64 among its whole numbers.
    number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, int) and value.bit_length() > 1000:  # no float holds it
        return False
    return number and not isinstance(value, bool | np.timedelta64)


def _whole(name: str, value: object, least: int, what: str, most: int = 2**62) -> None:
    whole = _is_number(value) and isinstance(value, int | np.integer)
    if not whole or not least <= value <= most:  # type: ignore[operator]
        upto = f" and at most {most:,}" if isinstance(value, int) and value > most else ""
        raise ParameterError(
            f"{name}: expected a whole number of at least {least}{upto}, found {value!r}",
            hint=f"{name} is {what}",
        )


def _number(
    name: str,
    value: object,
    what: str,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
) -> None:
    if _is_number(value) and math.isfinite(value) and least <= value <= most and value > above:
        return
    bound = f"above {above:g}" if above > -math.inf else f"of at least {least:g}"
    upto = f" and at most {most:g}" if most < math.inf else ""
    raise ParameterError(
        f"{name}: expected a number {bound}{upto}, found {value!r}", hint=f"{name} is {what}"
    )
