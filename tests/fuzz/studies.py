"""Damage studies: wrong types, wrong keys, deep nests, long numbers, odd characters, any bytes."""

import random

from fuzz.damage import damaged
from fuzz.outcome import Outcome
from fuzz.runner import Case, hunt

NAME = "studies"
STUDIES = (
    """\
[study]
name = "recovery"
dataset = "clinic"
period = "2026-11"
trajectories = 5000
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "person"
neighbours = "add-remove"
max_trajectories_per_person = 2
max_states_per_trajectory = 3
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
unvisited = 0.5
start = { ill = 0.5, well = 0.5 }
[states]
labels = ["ill", "better", "well"]
groups = { bad = "ill", good = "well", better = "better" }
visits = { ill = 0.5, better = 0.2, well = 1.0 }
[features]
kind = "aggregate"
size = 2
[weights]
values = [1.0, 2.0, 3.0]
[mechanism]
name = "dp-ssp"
shrinkage = true
[report]
level = 0.95
[data]
trajectory = "stay"
person = "patient"
step = "day"
state = "ward"
reward = "score"
id_type = "text"
step_type = "datetime"
step_format = "%d.%m.%Y"
invalid = "drop-unit"
missing = ["", "NA"]
decimal = ","
delimiter = ";"
encoding = "latin-1"
sorted = false
""",
    """\
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 1
rewards = [0, 1]
returns = [-1, 1]
[states]
count = 40
[weights]
kind = "uniform"
[mechanism]
name = "dp-lsl"
calibration = "exact"
noise = "isotropic"
beta = "auto"
ridge = "sqrt"
ridge_scale = 100.0
[study]
trajectories = 1000
""",
)
_NUMBERS = ("0", "-1", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "2147483648", "1.5")
ODD = (
    *_NUMBERS,
    *("true", '""', '"\\u0000"', '"\\u001b[2J\\u009b1m\\u202e"', '"x"', "[]", "{}", "[[1]]"),
    *("[1, 'a', 2.0]", "{a = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"?"'),
    *("9" * 5000, "-" + "9" * 4000, "0x" + "f" * 5000, "1e99999", "9" * 400 + ".5"),
    "[" * 3000 + "]" * 3000,
    "[" * 400 + "]" * 400,
    "{a = " * 400 + "1" + "}" * 400,
    '"' + "x" * 100_000 + '"',
    '"""\nseveral\nlines\n"""',
    '["' + '", "'.join(map(str, range(2000))) + '"]',
)


def fuzz(seed: int, seconds: float | None = None, count: int | None = None) -> Outcome:
    """Damage studies, and check them."""
    return hunt(NAME, case, seed, seconds, count)


def case(choose: random.Random) -> Case:
    """Return a study with damage."""
    lines = choose.choice(STUDIES).splitlines()
    how = choose.choice(tuple(_KINDS))
    content = _KINDS[how](lines, choose)
    return Case(
        what=how,
        files={"study.toml": content},
        arguments=["check", "{}/study.toml", *choose.choice(((), ("--json",)))],
    )


def _text(lines: list[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


def _other_values(lines: list[str], choose: random.Random) -> bytes:
    """Give some keys other values."""
    keys = [at for at, line in enumerate(lines) if "=" in line]
    for at in choose.sample(keys, choose.choice((1, 1, 1, 2))):
        lines[at] = f"{lines[at].partition('=')[0]}= {choose.choice(ODD)}"
    return _text(lines)


def _other_sections(lines: list[str], choose: random.Random) -> bytes:
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


def _other_keys(lines: list[str], choose: random.Random) -> bytes:
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


def _other_bytes(lines: list[str], choose: random.Random) -> bytes:
    """Damage the bytes."""
    content = _text(lines)
    for _ in range(choose.choice((1, 1, 3))):
        if content:
            content, _ = damaged(content, choose)
    return content


_KINDS = {
    "other values": _other_values,
    "other sections": _other_sections,
    "other keys": _other_keys,
    "other bytes": _other_bytes,
}
