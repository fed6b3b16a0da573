"""Scaling, windows, and a live stream's state: pure, no I/O, no clock, no printing."""
