"""Write the reference of the study file from the models that check it."""

from pydantic_core import PydanticUndefined

from privalue.study import Study, study_template

_INTRODUCTION = """# The study file

A study file says everything that is public about a release, and nothing else. It is written in
TOML. The data never adds to it. `privalue init` writes a study file with comments. With
`--data FILE` it fills in `[data]` from the names of the columns alone, and writes a `"?"` with a
question above it wherever the names do not settle the matter. `privalue check` lists the questions
that are still open, and then says everything that can be said without data. Side files are keyed by
state label (`.npy` and `.npz` by position), and are found beside the study file. A key that is
unknown or does not apply is refused.

This page is generated from the models that check the file.

**What matters most for the noise** is the range of `returns`: noise is proportional to it. If you
leave `returns` out, the range follows from rewards and discount. With a discount of 0.99 it is then
a hundred times the range of a reward. Give the tightest bounds that are publicly known.

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

If the cell of the number in the first row does not hold a number, that row is taken for a heading,
whatever it says. A label may be written as in `values.csv`, with an apostrophe before what looks
like a formula.

A study may come from somebody else, and labels are published. So all side files must lie in the
study's own folder, after links are resolved; otherwise the study is refused. `--side-files DIR` (in
Python, `Study.load(path, side_files=DIR)`) names one more folder that they may be in. Names are
relative to the study file; files that are not found there are looked for in DIR. Side files must be
regular files: a pipe, a socket or a device is refused before it is read. A `.npy`, `.npz` or
`.parquet` file may have at most 1 GB (10^9 bytes), on the disk and unpacked, and at most 10,000,000
columns. A CSV file may have at most 250 MB, one of its cells 131,072 characters, and the study
itself 64 MB. Sparse matrices are read in the formats csr, csc and coo, and every index is checked
before it is used.

## Bins

Columns of numbers can be cut into states. Give the public edges of each column, in place of `count`
or `labels`:

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

Each combination of bins is a state, so there are nine here; the bins of the last column change
fastest. Their labels are written as people would: `age < 50, sofa < 5`, `age < 50, 5 <= sofa < 10`,
... An edge belongs to the bin above it. The columns `age` and `sofa` may come from any source, and
no column of states is read. A missing cell or NaN is a missing state. An infinity, or a cell that
is not a number, makes the row invalid. Weights, visits, start and features are keyed by these
labels. The release publishes the edges.
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
