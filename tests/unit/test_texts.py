"""Numbers as people are shown them."""

import numpy as np

from newnormal.texts import between_text, number_texts

NUMBERS: dict[tuple[float, ...], str] = {
    (93.5e9, 40.2e9, 41e9): "93.5 G, 40.2 to 41 G",
    (93.5e6, 40e9, 41e9): "93.5 M, 40 to 41 G",
    (425, 162.3, 194.1): "425, 162 to 194",
    (194.2, 162.3, 194.1): "194.2, 162.3 to 194.1",
    (0.26, 0.122, 0.134): "0.26, 0.122 to 0.134",
    (1440, 1300.4, 1510.5): "1,440, 1,300 to 1,511",
    (0.0034, 0.0021, 0.00297): "0.0034, 0.0021 to 0.00297",
    (1e6, 0.12, 0.19): "1 M, 0.12 to 0.19",
    (3.2, 162.5, 193.5): "3.2, 163 to 194",
    (5.923, 0.342, 0.27): "5.92, 0.342 to 0.27",
    (-0.0, 3.4e-5, 2e-9): "0, 34 µ to 2 n",
    (1.0, 1.0 + 2**-52, 2.0): "1, 1.0000000000000002 to 2",
    (1e300, 99_999, 100_000): "1e+300, 99.999 to 100 k",
    (999_999, 1e18, 9e17): "1 M, 1e+18 to 900 P",
}


def test_numbers_of_one_sentence_have_one_precision_and_differ() -> None:
    for values, text in NUMBERS.items():
        first, *reach = number_texts(*values)
        assert f"{first}, {between_text(reach)}" == text


def test_a_value_outside_a_range_never_reads_like_its_bound() -> None:
    for bound, part in 10 ** np.random.default_rng(0).uniform((-11, -15), (19, 0), (2000, 2)):
        texts = number_texts(bound * (1 + part), bound / 2, bound, unit="B")
        assert bound * (1 + part) == bound or texts[0] != texts[2]
