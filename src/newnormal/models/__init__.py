"""Models of normal windows by name: `newnormal.models.base.Model` is what each of them is."""

from newnormal.models.registry import find

__all__ = ["find"]
