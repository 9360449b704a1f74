"""Signed heads: who kept them is shown."""

import json
import os
import re
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from privalue.cli import run
from privalue.errors import UsageError
from privalue.ledger import LedgerError, open_ledger, require_signed, sign_head

SEEN = "ab" * 32


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two pairs of keys, in the files that openssl would make, and what is none."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        (folder / f"{name}.key").write_bytes(private_bytes(key))
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    (folder / "rsa.key").write_bytes(private_bytes(rsa.generate_private_key(65537, 2048)))
    (folder / "locked.key").write_bytes(
        private_bytes(
            ed25519.Ed25519PrivateKey.generate(), serialization.BestAvailableEncryption(b"secret")
        )
    )
    (folder / "torn.key").write_bytes((folder / "own.key").read_bytes()[:40])
    return folder


def private_bytes(key, encryption=None):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_ledger("ledger.db").declare("people", epsilon=1.0, delta=1e-6, unit="person")
    return tmp_path


def test_a_signature_is_of_one_head_and_one_key(keys):
    signed = sign_head(SEEN, keys / "own.key")
    require_signed(SEEN, signed, keys / "own.pub")
    for head, signature, key in (
        ("cd" * 32, signed, "own.pub"),
        (SEEN, signed, "other.pub"),
        (SEEN, signed[:-2] + ("00" if signed[-2:] != "00" else "11"), "own.pub"),
        (SEEN, "ed25519:zz", "own.pub"),
        (SEEN, None, "own.pub"),
    ):
        with pytest.raises(LedgerError, match="sign"):
            require_signed(head, signature, keys / key)


def test_from_head_to_verify(ledger, keys, capsys):
    assert run(["ledger", "head", "--sign", str(keys / "own.key")]) == 0
    line = capsys.readouterr().out
    assert re.fullmatch(r"ledger\.db [0-9a-f]{64} ed25519:[0-9a-f]{128}\n", line)
    (ledger / "heads.txt").write_text(line)
    verify = ["ledger", "verify", "--head", "heads.txt"]
    assert run(verify) == 0  # whoever has no key may still look for the head
    assert run([*verify, "--public-key", str(keys / "own.pub")]) == 0
    assert run([*verify, "--public-key", str(keys / "other.pub")]) == 5
    (ledger / "heads.txt").write_text(line.rpartition(" ")[0] + "\n")
    capsys.readouterr()
    assert run([*verify, "--public-key", str(keys / "own.pub")]) == 5
    assert "is not signed" in capsys.readouterr().err


def test_as_json(ledger, keys, capsys):
    assert run(["ledger", "head", "--sign", str(keys / "own.key"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    require_signed(told["head"], told["signature"], keys / "own.pub")


@pytest.mark.parametrize("name", ["own.pub", "rsa.key", "locked.key", "torn.key", "none.key", "."])
def test_what_is_no_private_key(ledger, keys, name, capsys):
    assert run(["ledger", "head", "--sign", str(keys / name)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "BEGIN" not in said


def test_a_key_without_heads_checks_nothing(ledger, keys, capsys):
    assert run(["ledger", "verify", "--public-key", str(keys / "own.pub")]) == 2
    assert "--head" in capsys.readouterr().err


def test_without_the_library_it_is_a_missing_component(ledger, keys):
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from privalue.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    words = ["ledger", "head", "--sign", str(keys / "own.key")]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 6
    assert "pip install cryptography" in done.stderr


def test_a_key_is_a_regular_file_of_the_size_of_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(20_000))
    for name, why in (("pipe", "it is not a regular file"), ("large", "it is larger than")):
        with pytest.raises(UsageError, match=f"the private key .* cannot be read: {why}"):
            sign_head(SEEN, tmp_path / name)
        with pytest.raises(UsageError, match=f"the public key .* cannot be read: {why}"):
            require_signed(SEEN, None, tmp_path / name)
