"""The detector's options: what they may be, and what is said when they are not."""

import json
import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from newnormal import M2N2, Detector, Fixed, ParameterError
from newnormal.config import Config, duration, duration_text, option_as_json
from newnormal.models.registry import BUILT_IN
from tests.errors import raised

THRESHOLDS = {"threshold", "alarms_per_day", "risk"}
METHOD = {
    *("window", "stride", "fit_stride", "latent", "decay", "half_life", "lr"),
    *("detrend", "adapt", "model"),
}


def test_the_defaults_are_the_documented_ones() -> None:
    options = Detector().get_params()
    assert options.pop("seed") == 0
    assert set(options.values()) == {None}  # Detector chooses them
    assert vars(Config()) == {
        **dict.fromkeys(("stride", "fit_stride", "half_life", "period", "accept_after", "units")),
        "window": 12,
        "latent": 16,
        "decay": 0.99,
        "lr": 1e-3,
        "detrend": True,
        "adapt": True,
        "model": "mlp",
        "epochs": 10,
        "batch": 64,
        "seed": 0,
    }
    assert Config().judging_stride() == Config().training_stride() == 12


def test_detector_and_config_agree_on_names_and_defaults() -> None:
    options = M2N2().get_params()
    for alternative in THRESHOLDS:
        assert options.pop(alternative) is None
    assert Config.of(**options) == Config()
    assert set(options) == set(vars(Config()))
    assert set(options) - METHOD == set(Detector().get_params()) - THRESHOLDS


@pytest.mark.parametrize("name", sorted(METHOD))
def test_detector_refuses_an_option_of_the_method_and_names_m2n2(name: str) -> None:
    value = M2N2().get_params()[name]
    assert str(raised(ParameterError, lambda: Detector(**{name: value}))) == (
        f"{name}: Detector chooses it by itself, found {name}={value!r}\n"
        f"hint: to set it, use the paper's method: newnormal.M2N2({name}={value!r})"
    )


def test_an_option_that_neither_has_and_one_by_position_are_pythons_own_errors() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'widnow'"):
        Detector(widnow=12)
    with pytest.raises(TypeError, match="unexpected keyword argument 'widnow'"):
        M2N2(widnow=12)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Detector(12)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [Detector, M2N2])
@pytest.mark.parametrize("budget", [{"alarms_per_day": 2.0}, {"risk": 1e-4}])
@pytest.mark.parametrize("threshold", [0.99, 0.5, Fixed(3.0)])
def test_a_threshold_beside_a_budget_is_an_error(
    kind: type[Detector | M2N2], budget: dict[str, Any], threshold: Any
) -> None:
    error = raised(ParameterError, lambda: kind(threshold=threshold, **budget))
    ((name, value),) = budget.items()
    assert error.message == (
        f"expected threshold or {name}, found both: threshold={threshold!r}, {name}={value!r}"
    )
    assert error.hint
    detector = kind(**budget)
    with pytest.raises(ParameterError, match="expected threshold or"):
        detector.set_params(threshold=threshold)
    assert detector.threshold is None


@pytest.mark.parametrize("name", ["window", "latent", "epochs", "batch", "stride", "fit_stride"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "12", True, math.nan, np.timedelta64(3, "s")])
def test_counts_must_be_whole_numbers_of_at_least_1(name: str, value: Any) -> None:
    error = raised(ParameterError, lambda: M2N2(**{name: value}))
    assert error.message == f"{name}: expected a whole number of at least 1, found {value!r}"
    assert error.hint is not None
    assert error.hint.startswith(f"{name} is ")


def test_numpys_whole_numbers_are_whole_numbers() -> None:
    config = Config(window=np.int64(6), stride=np.int32(3), seed=np.uint8(4))  # type: ignore[arg-type]
    assert json.loads(json.dumps(option_as_json(config.stride))) == 3


@pytest.mark.parametrize("stride", [5, 7, 8, 24])
def test_a_stride_that_does_not_divide_the_window_is_met_with_those_that_do(stride: int) -> None:
    assert str(raised(ParameterError, lambda: M2N2(stride=stride))) == (
        f"stride: expected a divisor of window=12, found {stride}\n"
        "hint: choose one of 1, 2, 3, 4, 6, 12"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(
            ("lr", value, "a number of at least 0 and at most 3.40282e+38")
            for value in (-0.1, math.nan, math.inf, 1e39, "0.1")
        ),
        ("decay", 1.01, "a number of at least 0 and at most 1"),
        ("decay", -0.01, "a number of at least 0 and at most 1"),
        *(("half_life", value, "a number above 0") for value in (0, -3.0, math.inf)),
        ("half_life", "soon", "a duration above zero"),
        ("half_life", [], "a duration above zero"),
        ("period", "0s", "a duration above zero"),
        ("period", -1, "a duration above zero"),
        ("seed", -1, "a whole number of at least 0"),
        ("seed", None, "a whole number of at least 0"),
        ("detrend", 1, "True or False"),
        ("adapt", "yes", "True or False"),
        ("model", "lstm2", f"one of {', '.join(sorted(BUILT_IN))},"),
    ],
)
def test_a_value_that_cannot_work_is_named(name: str, value: Any, expected: str) -> None:
    error = raised(ParameterError, lambda: M2N2(**{name: value}))
    assert error.message.startswith(f"{name}: expected {expected}")
    assert error.message.endswith(f"found {value!r}")
    assert error.hint


@pytest.mark.parametrize(
    "options", [{"lr": 0}, {"lr": 1.0}, {"decay": 0}, {"decay": 1}, {"seed": 2**40}, {"window": 1}]
)
def test_values_at_the_edge_work(options: dict[str, Any]) -> None:
    M2N2(**options)


def test_repr_tells_what_was_given_and_nothing_else() -> None:
    assert repr(Detector()) == "Detector()"
    assert repr(M2N2(window=6, lr=0.5, half_life="6h")) == (
        "M2N2(window=6, half_life='6h', lr=0.5)"
    )


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        ("30s", 30 * 10**9),
        ("5min", 300 * 10**9),
        ("5m", 300 * 10**9),
        ("6h", 6 * 3600 * 10**9),
        ("1d", 86400 * 10**9),
        ("2w", 14 * 86400 * 10**9),
        ("1h30m", 5400 * 10**9),
        (" 1.5 H ", 5400 * 10**9),
        ("250ms", 250 * 10**6),
        ("10us", 10**4),
        ("7ns", 7),
        (90, 90 * 10**9),
        (0.5, 5 * 10**8),
        (np.float32(2), 2 * 10**9),
        (timedelta(hours=1, microseconds=1), 3600 * 10**9 + 1000),
        (np.timedelta64(2, "m"), 120 * 10**9),
    ],
)
def test_a_duration_is_read_in_every_form(value: Any, nanoseconds: int) -> None:
    found = duration(value)
    assert found == np.timedelta64(nanoseconds, "ns")
    assert found.dtype == np.dtype("timedelta64[ns]")


@pytest.mark.parametrize(
    "value",
    [
        *("", "h", "6", "6 parsecs", "6h!", "-6h", "1h -30m", "0s", "1e9999d", "99999999999d"),
        *(0, -1, math.nan, math.inf, True, None, np.timedelta64("NaT"), timedelta(0)),
    ],
)
def test_what_is_no_duration_is_an_error(value: Any) -> None:
    assert str(raised(ParameterError, lambda: duration(value, "period"))) == (
        f"period: expected a duration above zero, found {value!r}\n"
        'hint: write it like "30s", "5min", "6h" or "1d", or pass a timedelta'
    )


@hypothesis_settings(derandomize=True, deadline=None)
@given(st.integers(1, 2**52))
def test_a_durations_text_is_read_back(nanoseconds: int) -> None:
    value = np.timedelta64(nanoseconds, "ns")
    assert duration(duration_text(value)) == value


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"half_life": 5},
        {"half_life": np.float64(2.5)},
        {"half_life": "1h30m"},
        {"half_life": timedelta(hours=6)},
        {"half_life": np.timedelta64(90, "s")},
        {"decay": 0.99},
        {"period": 0.1, "window": 6, "stride": 2, "fit_stride": 100, "adapt": np.False_},
    ],
)
def test_options_come_back_from_json_meaning_the_same(options: dict[str, Any]) -> None:
    config = Config(**options)
    written = {name: option_as_json(value) for name, value in options.items()}
    again = Config(**json.loads(json.dumps(written)))
    minute = np.timedelta64(60, "s")
    assert again.decay_per_window(minute) == config.decay_per_window(minute)
    assert {name: option_as_json(getattr(again, name)) for name in options} == written
    # A default is still one, and what was given on purpose still was.
    assert type(again.decay) is type(config.decay)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((Detector, name) for name in ("alarms_per_day", "risk", "threshold")),
        *((Detector, name) for name in ("period", "accept_after")),
        *((M2N2, name) for name in ("decay", "half_life", "lr", "window")),
    ],
)
def test_a_number_that_no_float_holds_is_an_error(kind: type[Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        kind(**{name: 10**400})
