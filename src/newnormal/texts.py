"""Names, counts and numbers as a person is shown them."""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from difflib import get_close_matches

UNBROKEN = 100_000  # characters of a line of what is no terminal

# Controls, marks of direction, separators of lines, joiners that nobody sees, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_PREFIXES = {5: "P", 4: "T", 3: "G", 2: "M", 1: "k", 0: "", -1: "m", -2: "µ", -3: "n"}
# Units that a prefix is written to; before any other one it stands alone: "2.5 M req/s".
_PREFIXED = {*"BbAFHJLNVWglms", "bit", "bps", "Bps", "Hz", "Wh", "VA", "Ah", "Pa", "mol", "Ω"}
_PLAIN = {True: (0.1, 1e4), False: (1e-4, 1e5)}  # written without prefix; True: of those units
_EXACT = Context(prec=60)
_ALIKE_DIGITS = 7  # of numbers beside each other, of which some resemble each other
MOST_LISTED = 8  # names in a message
_MOST_DIGITS = 17  # of one that is the same as another with fewer: as many as a float has


def shown(text: object, *, lines: bool = False) -> str:
    r"""Return a text as a terminal may be given it: what would steer the terminal is escaped.

    Parameters
    ----------
    text
        A name, or a message with names in it.
    lines
        Whether it has lines of its own, so that newlines stay.

    Examples
    --------
    >>> print(shown("vfs.fs.size[/var,free]"), shown("\x1b[31mred\n"), shown("a\u202eb"))
    vfs.fs.size[/var,free] \x1b[31mred\n a\u202eb
    """

    def escaped(match: re.Match[str]) -> str:
        if lines and match[0] == "\n":
            return "\n"
        return match[0].encode("unicode_escape").decode()

    return _UNSEEN.sub(escaped, str(text))


def shortened(text: str, most: int = 60) -> str:
    """Return a text of at most `most` characters.

    >>> shortened("temperature", 8), shortened("temp", 8)
    ('tempe...', 'temp')
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """Return the hint for a name that is none of `names`; None if it is near to none of them.

    >>> did_you_mean("prot", ["host", "port"])
    'did you mean port?'
    """
    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]}?" if close else None


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first few if there are many.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed([str(n) for n in range(30)])
    "'0', '1', '2', '3', '4', '5', '6', '7' and 22 more"
    """
    quoted = ", ".join(repr(name) for name in names[:MOST_LISTED])
    more = len(names) - MOST_LISTED
    return f"{quoted} and {more} more" if more > 0 else quoted or "none"


def counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "alarm"), counted(2000, "alarm")
    ('1 alarm', '2,000 alarms')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """Return a length of time in its largest unit, in two digits.

    >>> seconds_text(12.7), seconds_text(150), seconds_text(7300), seconds_text(300_000)
    ('13 s', '2.5 min', '2 h', '3.5 d')
    """
    sizes = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    size, unit = next(each for each in sizes if seconds >= 1.5 * each[0] or each[0] == 1)
    return number_text(float(f"{seconds / size:.2g}"), unit)


def share_text(share: float) -> str:
    """Return a share in per cent; neither 0 nor 100 unless it is exactly that.

    >>> share_text(0.0), share_text(0.00001), share_text(0.0123), share_text(0.996)
    ('0 %', 'under 0.1 %', '1.2 %', '99.6 %')
    """
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "under 0.1 %" if share < 0.5 else "over 99.9 %"
    decimals = 1 if share < 0.1 or share > 0.9 else 0
    return f"{100 * share:.{decimals}f}".removesuffix(".0") + " %"


def number_text(value: float, unit: str = "", digits: int = 3) -> str:
    """Return a number with its unit, in so many significant digits, and an SI prefix if large.

    >>> [number_text(value) for value in (71.04, 0.0034, 1440, 9.35e10, -3.0, 2e-9)]
    ['71', '0.0034', '1,440', '93.5 G', '-3', '2 n']
    >>> number_text(9.35e10, "B"), number_text(2.5e6, "req/s"), number_text(0.0034, "s")
    ('93.5 GB', '2.5 M req/s', '3.4 ms')
    """
    return number_texts(value, unit=unit, digits=digits)[0]


def number_texts(*values: float, unit: str = "", digits: int = 3) -> list[str]:
    """Return numbers beside each other: one prefix and precision, and different ones differ.

    Prefix and precision are those of the second largest, so that one that is far out hides nothing
    of the others. `newnormal/page/format.js` has the same rule.

    >>> number_texts(26.04, 25.91, 25.97), number_texts(425, 162.3, 194.1)
    (['26.04', '25.91', '25.97'], ['425', '162', '194'])
    >>> number_texts(93.5e9, 40e9, 41e9, unit="B"), number_texts(12, 40e9, 41e9)
    (['93.5 GB', '40 GB', '41 GB'], ['12', '40 G', '41 G'])
    """
    sizes = sorted((abs(x) for x in values if x and math.isfinite(x)), reverse=True)
    typical = sizes[:2][-1] if sizes else 1.0
    texts: list[str] = []
    for significant in range(digits, _MOST_DIGITS + 1):
        texts = [_written(value, typical, significant, unit) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def between_text(texts: Sequence[str]) -> str:
    """Return numbers in words as a range, with what they have in common at its end.

    >>> between_text(["40 GB", "41 GB"]), between_text(["900 MB", "1.1 GB"])
    ('40 to 41 GB', '900 MB to 1.1 GB')
    """
    tails = {text.partition(" ")[2] for text in texts}
    if len(tails) > 1:
        return " to ".join(texts)
    return f"{' to '.join(text.partition(' ')[0] for text in texts)} {tails.pop()}".rstrip()


def _written(value: float, typical: float, significant: int, unit: str) -> str:
    """Return a number with the prefix and the decimals of a typical one; else with its own."""
    if value and not 1e-9 <= abs(value) < 1e18:  # nor is NaN
        return f"{value:.{significant}g} {unit}".rstrip()
    is_prefixed = unit.partition("/")[0] in _PREFIXED
    least, most = _PLAIN[is_prefixed]
    own = abs(value) or typical
    for like in (min(max(typical, 1e-9), 1e17), own):
        # Of one that is far out, as many digits as it has alone.
        sizes = (like, own if own >= 10 * like else like)
        exponent, digits_of = (int(f"{x:.{significant - 1}e}".partition("e")[2]) for x in sizes)
        power = 0
        if significant <= _ALIKE_DIGITS and not least <= like < most:
            power = min(exponent // 3, 0 if unit == "s" else 5)
        decimals = max(0, significant - 1 - digits_of + 3 * power)
        scaled = value * 1000**-power if power < 0 else value / 1000**power
        if 9.5 * 10**-decimals <= abs(scaled) < (1e4 if power else most):
            break
    if value == 0 and not is_prefixed:
        power = 0
    unit_of_last = Decimal((0, (1,), -decimals))
    # A half goes up, as in a browser; there is no minus before 0.
    text = f"{Decimal(float(scaled) + 0.0).quantize(unit_of_last, ROUND_HALF_UP, _EXACT):,f}"
    prefix = _PREFIXES[power]
    tail = f"{prefix}{unit}" if is_prefixed else f"{prefix} {unit}"
    return f"{text.rstrip('0').rstrip('.') if decimals else text} {tail.strip()}".rstrip()
