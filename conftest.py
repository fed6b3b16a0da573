"""What the tests leave out where an optional dependency is missing."""

from importlib.util import find_spec

# Its doctests cannot be collected without PyTorch; tests that need it say so when they skip.
collect_ignore_glob = [] if find_spec("torch") else ["src/newnormal/models/deep/*"]
