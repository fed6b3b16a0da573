"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("newnormal", "numpy", "numba", "llvmlite", "torch")


def facts() -> dict[str, str]:
    """Return the machine and the versions, in words."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores seen, one used",
        "other work": _load(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    } | {package: _version(package) for package in PACKAGES}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _load() -> str:
    if not hasattr(os, "getloadavg"):
        return "not known"
    return f"load average {os.getloadavg()[0]:.1f} when the run began"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
