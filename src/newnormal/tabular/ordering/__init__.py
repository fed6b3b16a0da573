"""Samples in order: finished series, and live ones as they come."""
