"""What holds for every test: a clean environment, compiled code that cannot be stale."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest

_HERE = Path(__file__).parent

# Tests, and the programs that they start, see these variables and no others: PYTHONUNBUFFERED, LANG
# or COLUMNS of one machine would hide a defect that others have. Windows needs many of its own.
_KEPT = re.compile(
    r"HOME|PATH|TMPDIR|TERM|CI|PYTHONPATH|NUMBA_CACHE_DIR"
    r"|(NEWNORMAL|PIP|PYENV|PYTEST)_.*|(LD|DYLD)_LIBRARY_PATH"
    r"|(http|https|no|all)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS_CA|CURL_CA)_BUNDLE",
    re.IGNORECASE,
)
if os.name == "posix":
    for name in [name for name in os.environ if not _KEPT.fullmatch(name)]:
        del os.environ[name]

# Numba compiles again when a kernel's own file changes, but not when a kernel it calls does. So
# the tests keep their compiled code under a digest of all of them.
_kernels = sorted((_HERE / "src/newnormal/kernels").glob("*.py"))
_digest = sha256(b"".join(path.read_bytes() for path in _kernels)).hexdigest()[:16]
# Each worker has a cache of its own: processes that compile one function for two signatures at once
# can leave an index that names the wrong code (Numba writes the index first, then the code).
_worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ.setdefault("NUMBA_CACHE_DIR", str(_HERE / ".numba_cache" / _digest / _worker))
os.environ.setdefault("NEWNORMAL_COMPILERS", "1")  # tests that compile do so in their own process

# Doctests of these cannot be collected without PyTorch; tests that need it say so.
collect_ignore_glob = [] if find_spec("torch") else ["src/newnormal/models/deep/*", "tests/deep.py"]
# Nor can those of the adapters without their libraries: CI has an environment for these.
collect_ignore_glob += [
    f"src/newnormal/adapters/{library}.py"
    for library in ("aeon", "sktime")
    if find_spec(library) is None
]


# The same cases every time, and none fails for how long it took.
hypothesis.settings.register_profile("newnormal", deadline=None, derandomize=True)
hypothesis.settings.load_profile("newnormal")


# ------------------------------------------------------------------ what is missing

# Why a test was skipped, in the words of `pytest.skip` and `importorskip`, and what it lacks.
_REASONS = (
    r"could not import '(?P<what>\w+)",
    r".*(?P<what>NEWNORMAL_DATA)",
    r".*extra `?(?P<what>\w+)",
    r"(?P<what>\w+) is not installed",
    r".*needs? (?:the )?(?P<what>[^:,]+)",
    r"(?P<what>.*)",
)
_NAMES = {
    "NEWNORMAL_DATA": "the benchmark data (NEWNORMAL_DATA)",
    **dict.fromkeys(("torch", "PyTorch", "deep"), "PyTorch (extra deep)"),
    **dict.fromkeys(("sklearn", "eval"), "scikit-learn (extra eval)"),
    **dict.fromkeys(("matplotlib", "plot"), "Matplotlib (extra plot)"),
    **dict.fromkeys(("polars", "parquet"), "Polars (extra parquet)"),
    **dict.fromkeys(("pyod", "peers"), "PyOD (extra peers)"),
    "aeon": "aeon (extra aeon)",
    "sktime": "sktime (extra sktime)",
    **dict.fromkeys(("paho", "mqtt"), "paho-mqtt (extra mqtt)"),
    **dict.fromkeys(("confluent_kafka", "kafka"), "confluent-kafka (extra kafka)"),
    **dict.fromkeys(("cramjam", "google"), "cramjam and protobuf (extra prometheus)"),
    **dict.fromkeys(("opentelemetry", "otlp"), "OpenTelemetry (extra otlp)"),
    "prometheus": "Prometheus",
    "promtool": "Prometheus (promtool)",
    "prometheus-alertmanager": "Alertmanager",
    "mosquitto": "Mosquitto",
    "site": "Zensical (extra site)",
}


def lacking(reason: str) -> str:
    """Return what a skipped test lacks, from its reason."""
    reason = reason.removeprefix("Skipped: ")
    matches = (re.match(pattern, reason, re.DOTALL) for pattern in _REASONS)
    what = next(match["what"] for match in matches if match)
    return _NAMES.get(what, what)


class _Skipped:
    """Gathers skipped tests and, from the workers too, modules skipped when they are collected."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}  # by node, why
        self.tests: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.modules[report.nodeid] = _reason(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.tests[report.nodeid] = _reason(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["modules"] = self.modules

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.modules |= getattr(node, "workeroutput", {}).get("modules", {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.modules or self.tests:
            terminalreporter.write_line("skipped, because it is not here: " + "; ".join(self))

    def __iter__(self) -> Iterator[str]:
        files = Counter(map(lacking, self.modules.values()))
        tests = Counter(map(lacking, self.tests.values()))
        for name in sorted(files | tests):
            counts = [f"{n} {unit}" for n, unit in ((files[name], "files"), (tests[name], "tests"))]
            yield f"{name}: {' and '.join(each for each in counts if each[0] != '0')}"


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


def pytest_configure(config: pytest.Config) -> None:
    """Gather what is skipped."""
    config.pluginmanager.register(_Skipped(), "skipped-and-missing")
