"""``python -m benchmarks``: measure everything in one run, print it, write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from contextlib import redirect_stderr
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks.machine import facts
from benchmarks.report import NotMeasured, Row, Section, summary, to_markdown, to_text

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "make bench"

SECTIONS = ("loop", "fitting", "stepping", "streaming", "choosing", "starting", "size")

CAVEATS = (
    "One thread each, PyTorch included. At these sizes a second thread helps neither.",
    "PyTorch is measured as one would first write it, not at its best. Compiled graphs or a "
    "batch of streams would narrow the gap. It is there as a yardstick that everybody knows.",
    "Most of the gap is the cost of starting an operation, not arithmetic. So it is widest for "
    "small models and shrinks as they grow.",
    "Times are processor time, which leaves out what other programs take; starting alone is by the "
    "wall clock. The best of many rounds counts, and what is compared is measured in turns, within "
    "the same seconds, because a shared machine's speed drifts.",
    "Other machines give other ratios: small models follow the processor's clock, the largest "
    "one its caches.",
)


def main() -> int:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fast look: few rounds, no page")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, metavar="SECTION",
        help=f"some of {', '.join(SECTIONS)}; no page",
    )  # fmt: skip
    parser.add_argument(
        "--size", action="store_true", help="also the installed size, which needs a network"
    )
    options = parser.parse_args()
    _one_thread()

    machine = facts()
    print("".join(f"{key}: {text}\n" for key, text in machine.items()))
    chosen = options.only or [name for name in SECTIONS if name != "size" or options.size]
    sections = []
    for name in chosen:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        sections.append(_measure(name, options.quick))
        print(f"{to_text(sections[-1])}\n", flush=True)
    print(summary(sections))
    if not options.quick and not options.only:
        _write(sections, machine)
    return 0


def _one_thread() -> None:
    """Ask for one thread; to be called before anything that calculates is imported."""
    for library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"


def _measure(name: str, quick: bool) -> Section:
    try:
        with redirect_stderr(io.StringIO()):  # no progress bars while the clock runs
            section: Section = import_module(f"benchmarks.{name}").measure(quick)
    except ModuleNotFoundError as error:
        return Section(name, (), "", [Row(name, skipped=f"{error.name} is not installed")])
    except NotMeasured as reason:
        return Section(name, (), "", [Row(name, skipped=str(reason))])
    return section


def _write(sections: list[Section], machine: dict[str, str]) -> None:
    page, raw = DOCS / "benchmarks.md", DOCS / "benchmarks.json"
    page.write_text(to_markdown(sections, machine, CAVEATS, COMMAND), encoding="utf-8")
    figures = {"machine": machine, "sections": [asdict(section) for section in sections]}
    raw.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {page} and {raw}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
