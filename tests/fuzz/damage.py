"""Damage bytes, at random."""

import struct

# Numbers at which programs have gone wrong.
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)


def flip(content, choose):
    """Flip some bits."""
    for _ in range(choose.choice((1, 1, 1, 2, 8))):
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)


def replace(content, choose):
    """Replace some bytes by others."""
    for _ in range(choose.choice((1, 1, 4))):
        content[choose.randrange(len(content))] = choose.randrange(256)


def truncate(content, choose):
    """Cut the end off."""
    del content[choose.randrange(len(content)) :]


def cut_out(content, choose):
    """Take a piece out."""
    start = choose.randrange(len(content))
    del content[start : start + choose.randrange(1, 64)]


def splice(content, choose):
    """Copy a piece to another place."""
    start, size = choose.randrange(len(content)), choose.randrange(1, 256)
    piece = content[start : start + size]
    at = choose.randrange(len(content))
    if choose.random() < 0.5:
        content[at:at] = piece
    else:
        content[at : at + len(piece)] = piece


def lie(content, choose):
    """Write an extreme number over a few bytes, as a header that lies would have."""
    form = choose.choice(("<I", ">I", "<Q", ">Q", "<H"))
    size = struct.calcsize(form)
    if len(content) < size:
        return
    at = choose.randrange(len(content) - size + 1)
    number = choose.choice(_EDGES) & (256**size - 1)
    content[at : at + size] = struct.pack(form, number)


def insert(content, choose):
    """Put in what no file should hold there."""
    odd = (b"\x00", b"\r", b"\xff\xfe", b"\xc3\x28", b'"', b"\x1b[2J", b"9" * 5000, b"\n\n")
    at = choose.randrange(len(content) + 1)
    content[at:at] = choose.choice(odd)


KINDS = (flip, flip, replace, truncate, cut_out, splice, lie, insert)


def damage(content, choose, near=(0.0, 1.0)):
    """The content with damage in a part of it, given as shares of its length; and which damage."""
    first, last = (int(len(content) * share) for share in near)
    part = bytearray(content[first:last] or content)
    kind = choose.choice(KINDS)
    kind(part, choose)
    return content[:first] + bytes(part) + content[last:], kind.__name__
