"""Damage studies: wrong types, wrong keys, deep nests, long numbers, odd characters, any bytes."""

from pathlib import Path

from fuzz.damage import damage

TEXTS = Path(__file__).parent / "texts"
STUDIES = [TEXTS / "every_section.toml", TEXTS / "counted.toml"]
ODD = [
    *(TEXTS / "odd_values.txt").read_text().splitlines(),
    "9" * 5000,
    "-" + "9" * 4000,
    "0x" + "f" * 5000,
    "9" * 400 + ".5",
    "[" * 3000 + "]" * 3000,
    "[" * 400 + "]" * 400,
    "{a = " * 400 + "1" + "}" * 400,
    '"' + "x" * 100_000 + '"',
    '"""\nseveral\nlines\n"""',
    '["' + '", "'.join(map(str, range(2000))) + '"]',
]


def case(choose):
    """A study with damage."""
    lines = choose.choice(STUDIES).read_text().splitlines()
    change = choose.choice((_other_values, _other_sections, _other_keys, _other_bytes))
    words = ["check", "{}/study.toml", *choose.choice(((), ("--json",)))]
    return change.__name__, {"study.toml": change(lines, choose)}, words, None


def _text(lines):
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


def _other_values(lines, choose):
    """Give some keys other values."""
    keys = [at for at, line in enumerate(lines) if "=" in line]
    for at in choose.sample(keys, choose.choice((1, 1, 1, 2))):
        lines[at] = f"{lines[at].partition('=')[0]}= {choose.choice(ODD)}"
    return _text(lines)


def _other_sections(lines, choose):
    """Put a value where a section should be, or a section where a value should be."""
    heads = [at for at, line in enumerate(lines) if line.startswith("[")]
    at = choose.choice(heads)
    name = lines[at].strip("[]")
    end = next((other for other in heads if other > at), len(lines))
    inside = lines[at + 1 : end]
    rest = lines[:at] + lines[end:]
    kind = choose.randrange(4)
    if kind == 0:
        return _text([f"{name} = {choose.choice(ODD)}", *rest])
    if kind == 1:
        return _text([*rest, f"[[{name}]]", *inside])
    if kind == 2:
        key = choose.choice(inside).partition(" ")[0]
        return _text([*rest, f"[{name}.{key}]", f"deep = {choose.choice(ODD)}"])
    return _text([*rest, f"[{choose.choice(('', name + '.' * 3, 'x' * 1000, name))}]", *inside])


def _other_keys(lines, choose):
    """Repeat, remove, rename or move lines."""
    at = choose.randrange(len(lines))
    kind = choose.randrange(4)
    if kind == 0:
        lines.insert(choose.randrange(len(lines)), lines[at])
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        odd = ("self", "model_config", '"\\u001b[1m"', "a.b.c", '""', "__class__", "matrix", "file")
        lines[at] = f"{choose.choice(odd)} = {choose.choice(ODD)}"
    else:
        choose.shuffle(lines)
    return _text(lines)


def _other_bytes(lines, choose):
    """Damage the bytes."""
    content = _text(lines)
    for _ in range(choose.choice((1, 1, 3))):
        if content:
            content, _ = damage(content, choose)
    return content
