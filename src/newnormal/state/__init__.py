"""State as data: one safetensors file with a versioned JSON header, written atomically.

`codec` reads and writes files, `facts` takes JSON values out of them, and `versions` brings older
ones up to date. `newnormal.packing` checks everything before it is used.
"""

from newnormal.state.codec import State, check_target, decode, encode, read, write
from newnormal.state.files import remove_stale
from newnormal.state.versions import VERSION

__all__ = ["VERSION", "State", "check_target", "decode", "encode", "read", "remove_stale", "write"]
