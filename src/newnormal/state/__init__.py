"""State as data: one safetensors file with a versioned JSON header, written atomically.

`codec` reads and writes files, `schema` has the name and the limits of everything in them, and
`migrations` bring older versions up to date. Loading checks everything before it is used.
"""

from newnormal.state.codec import State, check_target, decode, encode, read, write
from newnormal.state.files import remove_stale
from newnormal.state.schema import VERSION

__all__ = ["VERSION", "State", "check_target", "decode", "encode", "read", "remove_stale", "write"]
