"""Scaling, windows, times, a stream's state and the loop: no I/O, no printing."""
