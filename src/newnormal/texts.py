"""Names and counts as a person is shown them."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Controls, marks of direction, separators of lines, joiners that nobody sees, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


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


def counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "alarm"), counted(2000, "alarm")
    ('1 alarm', '2,000 alarms')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
