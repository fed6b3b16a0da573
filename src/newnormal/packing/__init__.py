"""A detector as data and back: which part of it has which name in a state file.

`newnormal.state.facts` has the limits of each name. Nothing is allocated or indexed by what a file
holds before it is checked.
"""

from newnormal.packing.pack import pack
from newnormal.packing.unpack import Unpacked, unpack, write_checked

__all__ = ["Unpacked", "pack", "unpack", "write_checked"]
