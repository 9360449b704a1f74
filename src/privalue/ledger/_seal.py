"""Seal declarations and snapshots with a secret, so that only who has it can write them.

A file of SQLite has no roles: whoever can write it can write a total. The seal of an entry is
HMAC-SHA256 over its canonical text, with a key that scrypt derives from the secret and from the
random bytes of the ledger's first entry. The ledger holds the seals and never the secret. Who does
not have the secret cannot check a seal, and releases as before.
"""

import hashlib
import hmac
from pathlib import Path

from privalue._files import read_whole
from privalue.errors import UsageError

_LEAST = 16  # bytes: a passphrase of a few words; a key file has 32
_MOST = 65_536


class Seal:
    """A secret; neither shown nor stored."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._keys: dict[str, bytes] = {}  # by the salt of the ledger's first entry

    @classmethod
    def load(cls, path: Path) -> "Seal":
        """Return the secret in a file, a key or a passphrase, without white space at either end.

        Raises:
            UsageError: it cannot be read, or is too short or too long for a secret.
        """
        try:
            secret = read_whole(path, _MOST).strip()
        except OSError as problem:
            raise UsageError(
                f"the seal {path} cannot be read: {problem.strerror}; give the file that holds the "
                "key or the passphrase"
            ) from problem
        if len(secret) < _LEAST:
            raise UsageError(
                f"the seal {path} holds {len(secret)} bytes: it must hold {_LEAST} to {_MOST}; "
                "head -c 32 /dev/urandom | base64 > FILE makes one"
            )
        return cls(secret)

    def of(self, body: str, salt: str) -> str:
        """Return the seal of an entry's text, in the ledger whose first entry has this salt."""
        if salt not in self._keys:
            self._keys[salt] = hashlib.scrypt(
                self._secret, salt=bytes.fromhex(salt), n=2**14, r=8, p=1, dklen=32
            )
        return hmac.new(self._keys[salt], body.encode(), hashlib.sha256).hexdigest()

    def fits(self, seal: str, body: str, salt: str) -> bool:
        """Return whether it is the seal of an entry's text, made with this secret."""
        return hmac.compare_digest(seal, self.of(body, salt))
