"""Experiments of our own, and the demo, one module each."""
