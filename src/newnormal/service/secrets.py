"""Tokens and their hashes."""

import hashlib
import hmac
import re
import secrets

_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def new_token() -> str:
    """Return a new token: 256 bits that nobody can guess."""
    return f"nn_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """Return what is stored of a token.

    A token is 256 random bits, so that a plain hash cannot be searched; a password would need a
    slow one.

    >>> hash_token("nn_example")[:20]
    'sha256:7fb845f462872'
    """
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_token_hash(text: str) -> bool:
    """Whether text is what `hash_token` gives."""
    return _HASH.fullmatch(text) is not None


def token_matches(token: str, hashed: str) -> bool:
    """Whether a hash is that of a token, in a time that does not depend on either.

    >>> token_matches("nn_example", hash_token("nn_example")), token_matches("", hash_token("a"))
    (True, False)
    """
    return hmac.compare_digest(hash_token(token).encode(), hashed.encode())
