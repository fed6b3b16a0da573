"""The engine: what happens is logged first, then applied; what follows is kept.

The log (`log`) is the order of things. The applier (`applying`) puts samples in order, judges them
and takes fits over; the store (`store`) has what follows. Nothing here needs a port.
"""
