"""Sinks of verdicts: `base` has the class to derive from, each other file one kind of output."""
