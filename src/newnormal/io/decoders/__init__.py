"""Decoders: what makes samples of the bodies that other programs send to the service."""
