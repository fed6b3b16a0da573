"""Alerts of the service: what they say, and how they are delivered."""
