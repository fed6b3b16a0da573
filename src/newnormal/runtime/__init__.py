"""A detector at work: the watch loop, its checkpoint, and feedback from a person.

Nothing here prints: what a user should know goes through a callback, `report`.
"""
