"""The store of the service: what follows from its log, for pages, reports and recovery."""

from newnormal.engine.store.store import Store

__all__ = ["Store"]
