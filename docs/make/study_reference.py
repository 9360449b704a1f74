"""Write the reference of the study file from the models that check it."""

from pydantic_core import PydanticUndefined

from privalue.study import Study, study_template

_INTRODUCTION = """# The study file

What is public, and only that; TOML. The data never adds to it. `privalue init` writes one with
comments; with `--data FILE` it fills in `[data]` by the names of the columns alone, and leaves a
`"?"`, with a question above it, for whatever they do not tell. `privalue check` says what is left
to answer, and then everything that can be said without data. Side files are keyed by
state label (`.npy` and `.npz` by position) and found beside the study file. A key that is unknown
or does not apply is refused.

This page is made from the models that check the file.

**What matters most for the noise** is the range of `returns`: noise is proportional to it. Left
out, it follows from rewards and discount, and with a discount of 0.99 that is a hundred times the
range of a reward. Give the tightest bounds that are publicly known.

## Side files

| key | columns | every state? |
|---|---|---|
| `[states] file` | label | it lists them |
| `[states] groups` | raw label, state | raw labels as in the data |
| `[states] visits` | state, probability | yes |
| `[values] start` | state, probability | states left out have 0; they sum to 1 |
| `[weights] file` | state, weight | yes |
| `[features] file`, `.npy` or `.npz` | none: rows in the order of the states | yes |
| `[features] file`, `.csv` or `.parquet` | state, then one column a feature | yes |

A first row whose number is no number is taken for a heading, whatever it says. A label may be as
`values.csv` has it, with an apostrophe before what looks like a formula.

A study may come from somebody else, and labels are published: so its side files are in the study's
own folder, links resolved, or it is refused. `--side-files DIR` (in Python,
`Study.load(path, side_files=DIR)`) names another folder that they may be in: names are relative to
the study file, and those that are not found there are looked for in DIR. They are regular files: a
pipe, a socket or a device is refused before it is read. A `.npy`, `.npz` or `.parquet` file has at
most 1 GB (10^9 bytes), on the disk and unpacked, and at most 10,000,000 columns; a CSV file at most
250 MB, and a cell 131,072 characters; the study itself 64 MB. Of sparse matrices the formats csr,
csc and coo are read, and every index is checked before it is used.

## Bins

States may be made of numbers, by public edges of each column, in place of `count` or `labels`:

```toml
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"

[values]
discount = 0.99
returns = [0.0, 1.0]

[states.bins]
age = [50, 70]
sofa = [5, 10]
```

The states are the product of the bins, nine here, the last column's bins the fastest, called as
people write it: `age < 50, sofa < 5`, `age < 50, 5 <= sofa < 10`, ... An edge belongs to the bin
above it. The columns `age` and `sofa` come from any source, and no column of states is read. A cell
that is missing or NaN is a missing state; an infinity, or what is no number, makes the row invalid.
Weights, visits, start and features are keyed by these labels. The edges stand in the release.
"""


def study_reference() -> str:
    """Return Markdown: every section and key, what it means, what is allowed, and the default."""
    parts = [_INTRODUCTION]
    for section, described in Study.model_fields.items():
        needed = "" if not described.is_required() else " (required)"
        parts.append(f"\n## [{section}]{needed}\n\n{described.description}\n")
        parts.append("\n| key | meaning | allowed | default |\n|---|---|---|---|\n")
        for key, field in Study.keys_of(section).items():
            extra = field.json_schema_extra
            allowed = str(extra["allowed"]) if isinstance(extra, dict) else ""
            default = "required" if field.default is PydanticUndefined else _default(field.default)
            parts.append(f"| `{key}` | {field.description} | {allowed} | {default} |\n")
    parts.append(f"\n## A commented file\n\n```toml\n{study_template()}```\n")
    return "".join(parts)


def _default(value: object) -> str:
    """Return a default as the table shows it."""
    return "none" if value is None or value == () else f"`{value}`"
