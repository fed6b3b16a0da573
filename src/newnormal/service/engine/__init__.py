"""Applies the log: samples are put in order, fitted, judged; what follows is stored."""
