"""Models of normal windows: what each is, and how it is found by name."""

from newnormal.models.registry import BUILT_IN, find

__all__ = ["BUILT_IN", "find"]
