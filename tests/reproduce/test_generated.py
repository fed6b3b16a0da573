"""The generated streams of our experiments: obvious faults, and a job that runs each night."""

import numpy as np
import pytest

from newnormal.errors import ParameterError
from newnormal_reproduce.engine.arrays import Floats
from newnormal_reproduce.ours import obvious_cases
from newnormal_reproduce.ours.nightly import nightly_job

LENGTHS = {
    "spike": (1, 1),
    "step": (120, 12),
    "drop": (60, 8),
    "stuck": (240, 24),
    "noise": (120, 12),
    "ramp": (240, 24),
    "lost cycle": (360, 36),
    "broken coupling": (360, 36),
}


def every(rate: str, seed: int = 0) -> dict[str, obvious_cases.Case]:
    return {case.name: case for case in obvious_cases.cases(rate, seed)}


def pairs(
    rate: str, fault: str, seed: int = 0
) -> list[tuple[obvious_cases.Case, obvious_cases.Case]]:
    """Each case with a fault, and the same stream without it."""
    cases = every(rate, seed)
    found = [case for case in cases.values() if case.fault == fault]
    return [(case, cases[f"{case.stream}/none"]) for case in found]


def inside(case: obvious_cases.Case, other: obvious_cases.Case | None = None) -> Floats:
    """The faulty channel for as long as the fault lasts."""
    return (other or case).live[case.start : case.start + case.length, case.channel]


@pytest.mark.parametrize(("rate", "history", "live"), [("1min", 10080, 4320), ("15min", 1920, 960)])
def test_every_fault_is_on_every_kind_and_width(rate: str, history: int, live: int) -> None:
    cases = every(rate)
    streams = {case.stream for case in cases.values()}
    kinds = {kind: [1, 2, 3, 8] for kind in ("sine", "ar", "duty", "counts")} | {
        "coupled": [2, 3, 8]
    }
    assert streams == {f"{kind}-{width}" for kind, widths in kinds.items() for width in widths}
    for stream in streams:
        faults = {case.fault for case in cases.values() if case.stream == stream}
        coupled = stream.startswith("coupled")
        assert faults == {None, *obvious_cases.FAULTS} - (
            {"broken coupling"} if not coupled else set()
        )
    for case in cases.values():
        assert case.history.shape == (history, case.channels)
        assert case.live.shape == (live, case.channels)
        assert len(case.history_times) == history
        times = np.concatenate([case.history_times, case.live_times])
        assert (np.diff(times) == case.rate.period).all()
        assert np.isfinite(case.history).all()
        assert np.isfinite(case.live).all()


@pytest.mark.parametrize(("at", "rate"), [(0, "1min"), (1, "15min")])
def test_a_fault_changes_its_channel_and_its_samples_alone(at: int, rate: str) -> None:
    for fault, lengths in LENGTHS.items():
        for case, twin in pairs(rate, fault):
            assert case.length == lengths[at]
            assert case.start >= len(case.live) // 10
            assert case.start + case.length + 10 <= len(case.live)
            differs = case.live != twin.live
            assert differs.any()
            differs[case.start : case.start + case.length, case.channel] = False
            assert not differs.any()
            assert case.labels.sum() == case.length
            assert case.labels[case.start] == 1
            np.testing.assert_array_equal(case.history, twin.history)


def test_sizes_are_in_standard_deviations_of_history() -> None:
    for fault, size in (("spike", 10), ("step", 5)):
        for case, twin in pairs("15min", fault):
            std = case.history[:, case.channel].std()
            off = 0.5 if case.kind == "counts" else 1e-9
            np.testing.assert_allclose(inside(case) - inside(case, twin), size * std, atol=off)
    for case, twin in pairs("15min", "ramp"):
        std = case.history[:, case.channel].std()
        assert inside(case)[-1] - inside(case, twin)[-1] == pytest.approx(8 * std, abs=0.5)
    for case, twin in pairs("1min", "noise"):
        if case.kind != "counts":
            std = case.history[:, case.channel].std()
            assert (inside(case) - inside(case, twin)).std() == pytest.approx(3 * std, rel=0.3)


def test_a_drop_is_to_zero_or_six_deviations_below_the_mean_and_a_stuck_sensor_stays() -> None:
    for case, _ in pairs("15min", "drop"):
        before = case.history[:, case.channel]
        low = 0.0 if case.kind == "counts" else min(0.0, before.mean() - 6 * before.std())
        np.testing.assert_allclose(inside(case), low)
    for case, _ in pairs("1min", "stuck"):
        np.testing.assert_array_equal(inside(case), case.live[case.start - 1, case.channel])


def test_a_lost_cycle_keeps_a_twentieth_of_the_swing_and_the_noise() -> None:
    seen = 0
    for seed in range(5):
        for case, twin in pairs("1min", "lost cycle", seed):
            std = case.history[:, case.channel].std()
            if case.kind == "ar":
                assert inside(case).std() == pytest.approx(0.05 * inside(case, twin).std())
            if case.kind in ("sine", "duty"):
                assert inside(case).std() < 0.25 * std  # noise is 0.08 of the amplitude
                assert inside(case).std() > 0.03 * std
                seen += 1
    assert seen == 40


def test_a_broken_coupling_is_the_stretch_before_it_backwards() -> None:
    for case, _ in pairs("15min", "broken coupling"):
        column = np.concatenate([case.history, case.live])[:, case.channel]
        at = len(case.history) + case.start
        before = column[at - case.length : at]
        np.testing.assert_array_equal(inside(case), before[::-1])


def test_counts_are_whole_numbers_and_never_negative() -> None:
    for case in every("15min").values():
        if case.kind == "counts":
            whole = np.concatenate([case.history, case.live])
            np.testing.assert_array_equal(whole, np.rint(whole))
            assert whole.min() >= 0


def test_what_is_asked_for_does_not_change_the_data() -> None:
    whole = every("15min", 3)
    (twin, some) = obvious_cases.cases("15min", 3, kinds=["duty"], channels=[2], faults=["ramp"])
    assert (twin.name, some.name) == ("duty-2/none", "duty-2/ramp")
    for case in (twin, some):
        assert case.live.tobytes() == whole[case.name].live.tobytes()
        assert case.history.tobytes() == whole[case.name].history.tobytes()
    assert every("15min", 4)["duty-2/ramp"].live.tobytes() != some.live.tobytes()


def test_a_case_says_what_it_is() -> None:
    twin, some = obvious_cases.cases("15min", kinds=["sine"], channels=[1], faults=["step"])
    assert repr(twin) == "Case('sine-1/none', no fault)"
    assert repr(some) == f"Case('sine-1/step', step at {some.start} for 12 in channel 0)"
    assert some.samples_per_day == 96


def test_what_is_not_known_and_what_the_job_cannot_make_are_refused() -> None:
    with pytest.raises(ParameterError, match="rate: expected 1min, 15min, found '1h'"):
        next(obvious_cases.cases("1h"))
    with pytest.raises(ParameterError, match=r"kinds: expected sine, .* found 'square'"):
        next(obvious_cases.cases("1min", kinds=["square"]))
    with pytest.raises(ParameterError, match=r"faults: expected spike, .* found 'smoke'"):
        next(obvious_cases.cases("1min", faults=["smoke"]))
    with pytest.raises(ParameterError, match="variant: expected usual, noon or new, found 'day'"):
        nightly_job(variant="day")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="days: expected at least 15, found 3"):
        nightly_job(variant="noon", days=3)
    assert nightly_job(days=3).test.shape == (864, 2)


def test_a_hundred_seeds_have_every_fault_within_the_live_part() -> None:
    for seed in range(100):
        for case in obvious_cases.cases("15min", seed, kinds=["coupled"], channels=[2]):
            assert case.labels.sum() == case.length, seed
            assert (case.fault is None) == (case.length == 0), seed


def test_the_job_runs_from_half_past_three_for_twenty_minutes_every_night() -> None:
    data = nightly_job(1)
    added = data.train - nightly_job(1, "new").train
    hours = (data.train_times - data.train_times.astype("datetime64[D]")).astype(int)  # type: ignore[union-attr]
    job = (hours >= 210) & (hours < 230)
    assert job.sum() == 4 * 30
    np.testing.assert_allclose(added[job], [[50, 20]] * job.sum())
    assert not added[~job].any()
    assert data.train.shape == data.test.shape == (8640, 2)
    assert data.labels.sum() == 0
    assert data.period == np.timedelta64(5, "m")


def test_the_variants_differ_in_the_job_alone() -> None:
    usual, noon, new = (nightly_job(2, variant) for variant in ("usual", "noon", "new"))
    np.testing.assert_array_equal(usual.train, noon.train)
    np.testing.assert_array_equal(usual.test, new.test)
    assert np.flatnonzero((noon.test != usual.test).any(axis=1)).tolist() == [
        *np.flatnonzero(noon.labels)
    ]
    assert noon.labels.sum() == 4
    assert (usual.shifts, new.shifts) == ((), (42,))
    assert new.train.max() < usual.train.max() - 20
