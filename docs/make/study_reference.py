"""Write the reference of the study file from the models that check it."""

from pydantic.fields import FieldInfo

from privalue.study import SECTIONS, about, study_template

_INTRODUCTION = """# The study file

A study file says everything that is public about a release, and nothing else. You write it before
anybody looks at the data, and the data never adds to it. It is written in TOML. A key that is
unknown, or that does not apply, is refused. The words are explained in the
[glossary](glossary.md).

This is the smallest study. Everything else on this page is optional:

```toml
[privacy]
epsilon = 1.0            # how much may be revealed: smaller is more private
delta = 1e-6
unit = "trajectory"      # or "person"

[values]
discount = 0.99
returns = [0.0, 1.0]     # public bounds of a discounted sum of rewards

[states]
labels = ["ill", "better", "well"]
```

**What matters most for the noise** is the range of `returns`: noise is proportional to it. If you
leave `returns` out, the range follows from `rewards` and the discount. With a discount of 0.99 it
is then a hundred times the range of a reward. Give the tightest bounds that are publicly known.

Two commands help you to write the file:

- `privalue init` writes a study file with comments. `privalue init --data FILE` fills in `[data]`
  from the names of the columns; it looks at no row. Where the names do not settle the matter, it
  writes a `"?"` with a question above it.
- `privalue check study.toml` lists the questions that are still open. Then it says everything that
  follows from the study, without any data.

| you want | sections that you need |
|---|---|
| values by state | `[privacy]`, `[values]`, `[states]`; `[data]` if your columns have other names |
| a ledger that counts what is spent | `dataset` in `[study]` |
| two treatments compared | `[arms]` ([arms](arms.md)) |
| the value of each action | `[actions]` ([actions](actions.md)) |
| what another policy is worth | `[actions]`, `[policy]`, `[mechanism]` ([how](off-policy.md)) |
| values that share information between states | `[features]`, `[weights]` |

This page is generated from the models that check the file.

## Side files

A *side file* is a file that the study names, such as a list of states. It lies beside the study
file. Its rows begin with the label of a state; only `.npy` and `.npz` files have no labels, and are
in the order of the states.

| key | columns | every state? |
|---|---|---|
| `[states] file` | label | it lists them |
| `[states] groups` | label in the data, state | every label in the data |
| `[states] visits` | state, probability | yes |
| `[values] start` | state, probability | states that are left out have 0; all sum to 1 |
| `[weights] file` | state, weight | yes |
| `[features] file`, `.npy` or `.npz` | none: rows in the order of the states | yes |
| `[features] file`, `.csv` or `.parquet` | state, then one column for each feature | yes |

- **Heading.** A first row in which the cell of the number does not hold a number is taken for a
  heading, whatever it says.
- **Labels** may be written as in `values.csv`, with an apostrophe before what looks like a formula.
- **Where they may be.** A study may come from somebody else, and labels are published. So all side
  files must lie in the study's own folder, after links are resolved; otherwise the study is
  refused. `--side-files DIR` (in Python, `Study.load(path, side_files=DIR)`) names one more folder.
  Names are relative to the study file; files that are not found there are looked for in DIR.
- **What they may be.** They must be regular files: a pipe, a socket or a device is refused before
  it is read.
- **How large they may be.** A `.npy`, `.npz` or `.parquet` file may have at most 1 GB (10^9 bytes),
  on the disk and unpacked, and at most 10,000,000 columns. A CSV file may have at most 250 MB, one
  of its cells 131,072 characters, and the study itself 64 MB.
- **Sparse matrices** are read in the formats csr, csc and coo, and every index is checked before it
  is used.

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

- **States.** Each combination of bins is a state, so there are nine here. The bins of the last
  column change fastest. An edge belongs to the bin above it.
- **Labels** are written as people would: `age < 50, sofa < 5`, `age < 50, 5 <= sofa < 10`, and so
  on. Weights, visits, start and features use these labels. The release publishes the edges.
- **Columns.** `age` and `sofa` may come from any source, and no column of states is read.
- **Missing and invalid cells.** A missing cell or NaN is a missing state. An infinity, or a cell
  that is not a number, makes the row invalid.
"""


def study_reference() -> str:
    """Return Markdown: every section and key, what it means, what is allowed, and the default."""
    parts = [_INTRODUCTION]
    for section, model in SECTIONS.items():
        needed = " (required)" if section in {"privacy", "values", "states"} else ""
        says = (model.__doc__ or "").partition(": ")[2]
        parts.append(f"\n## [{section}]{needed}\n\n{says[:1].upper()}{says[1:]}\n")
        parts.append("\n| key | meaning | allowed | default |\n|---|---|---|---|\n")
        for key, field in model.model_fields.items():
            allowed = about(field, "allowed")
            default = "required" if field.is_required() else _default(_usual(field))
            meaning = field.description or ""
            meaning = f"{meaning[:1].upper()}{meaning[1:]}."
            parts.append(f"| `{key}` | {meaning} | {allowed} | {default} |\n")
    parts.append(f"\n## A commented file\n\n```toml\n{study_template()}```\n")
    return "".join(parts)


def _usual(field: FieldInfo) -> object:
    """Return the default of a key, for dp-ssp where the mechanisms differ."""
    if field.default_factory is None:
        return field.default
    found = field.get_default(call_default_factory=True, validated_data={"name": "dp-ssp"})
    return None if isinstance(found, tuple) else found  # rewards follow from returns


def _default(value: object) -> str:
    """Return a default as the table shows it."""
    return "none" if value is None or value == () else f"`{value}`"
