"""Experiments that anyone can run again: `engine` runs them, `paper` and `ours` define them.

`report` writes their results, and `registry` lists them. They use the public API of newnormal.
"""

__version__ = "0.1.0"
