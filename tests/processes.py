"""Python in a process of its own."""

import subprocess
import sys
from typing import Any


def python(
    *arguments: object, check: bool = False, timeout: float = 600.0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments until it ends; what it writes is kept as text."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=timeout, **options
    )
