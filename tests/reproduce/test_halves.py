"""Which streams choose constants, and which report."""

from newnormal_reproduce.ours.drift_figures import HALVED, halves, is_choosing

NAMES = ["NAB/b/2", "NAB/a/1", "UCR/011_X", "NAB/b/10", "SMD/1-4", "UCR/012_Y"]


def test_streams_sorted_by_name_choose_and_report_in_turn_and_each_is_in_one_half() -> None:
    assert halves("NAB", NAMES) == (("NAB/a/1", "NAB/b/2"), ("NAB/b/10",))
    assert halves("UCR", NAMES) == (("UCR/011_X",), ("UCR/012_Y",))
    assert halves("SKAB", NAMES) == ((), ())
    for owner in (*HALVED, "SMD"):
        choosing, reporting = halves(owner, NAMES)
        mine = {name for name in NAMES if name.startswith(f"{owner}/")}
        assert set(choosing).isdisjoint(reporting)
        assert set(choosing) | set(reporting) == mine
        assert {name for name in mine if is_choosing(name, NAMES)} == set(choosing)
    assert halves("SMD", NAMES) == ((), ("SMD/1-4",))
