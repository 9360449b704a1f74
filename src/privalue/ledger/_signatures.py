"""Sign heads with Ed25519, so that a head kept elsewhere shows who kept it. Extra: ``signatures``.

Whoever can rewrite a ledger may also write heads into a file; without the private key nobody can
sign them. Keys are PEM files, as ``openssl genpkey -algorithm ed25519`` makes them.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from privalue._files import read_whole
from privalue.errors import LedgerError, MissingComponentError, UsageError
from privalue.ledger._chain import check_hash

MARK = "ed25519:"
_SUBJECT = (
    "head of a ledger of privalue: "  # so that a signature of something else is none of a head
)
_MOST_BYTES = 10_000  # of a key


def sign_head(head: str, key: Path) -> str:
    """Return the signature of a head, with its mark.

    Args:
        head: the hash of an entry.
        key: the file of a private key, without a passphrase.
    """
    private = _loaded(key, "private")
    return f"{MARK}{private.sign(_message(head)).hex()}"


def require_signed(head: str, signature: str | None, key: Path) -> None:
    """Raise LedgerError unless the owner of a key signed a head.

    Args:
        head: the hash of an entry.
        signature: from ``sign_head``; None where there is none.
        key: the file of the public key.
    """
    public = _loaded(key, "public")
    if signature is None:
        raise LedgerError(f"the head {head} is not signed, and it has to be")
    try:
        public.verify(bytes.fromhex(signature.removeprefix(MARK)), _message(head))
    except (ValueError, _cryptography("exceptions").InvalidSignature):
        raise LedgerError(f"the head {head} was not signed with the key of {key}") from None


def _message(head: str) -> bytes:
    """Return what is signed."""
    return (_SUBJECT + check_hash("the head", head)).encode()


def _loaded(file: Path, kind: str) -> Any:
    """Return a key from its file, or raise UsageError without quoting anything of it."""
    serialization = _cryptography("hazmat.primitives.serialization")
    keys = _cryptography("hazmat.primitives.asymmetric.ed25519")
    try:
        text = read_whole(file, _MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"the {kind} key {file} cannot be read: {problem.strerror}") from None
    try:
        if kind == "private":
            key = serialization.load_pem_private_key(text, None)
            fits = isinstance(key, keys.Ed25519PrivateKey)
        else:
            key = serialization.load_pem_public_key(text)
            fits = isinstance(key, keys.Ed25519PublicKey)
    except Exception:  # whatever the library makes of a damaged file, or of one with a passphrase
        fits = False
    if not fits:
        more = " without a passphrase" if kind == "private" else ""
        raise UsageError(
            f"{file} is no {kind} key of Ed25519{more}; make a pair with `openssl genpkey "
            "-algorithm ed25519 -out KEY`, and `openssl pkey -in KEY -pubout -out PUBLIC`"
        )
    return key


def _cryptography(module: str) -> Any:
    """Import a part of the library, which is an extra."""
    try:
        return import_module(f"cryptography.{module}")
    except ImportError:
        raise MissingComponentError(
            "heads are signed and checked with cryptography: pip install cryptography"
        ) from None
