"""Experiments of our own."""
