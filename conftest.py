"""What holds for every test: a cache of compiled code that cannot be stale, optional parts."""

import os
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

_HERE = Path(__file__).parent

# Numba compiles again when a kernel's own file changes, but not when a kernel it calls does. So
# the tests keep their compiled code under a digest of all of them.
_kernels = sorted((_HERE / "src/newnormal/kernels").glob("*.py"))
_digest = sha256(b"".join(path.read_bytes() for path in _kernels)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(_HERE / ".numba_cache" / _digest))

# Doctests of this folder cannot be collected without PyTorch; tests that need it say so.
collect_ignore_glob = [] if find_spec("torch") else ["src/newnormal/models/deep/*"]
