"""Declare the section ``[data]``: the names of the columns, and what their cells are."""

import codecs
from typing import Literal

from pydantic import StrictBool

from privalue.study.sections import Section, Text, key

ROLES = ("trajectory", "step", "state", "reward", "action", "probability", "person", "truncated")


class Columns(Section):
    """``[data]``: the names of the columns, and what their cells are.

    A cell is read by what is declared here and by nothing else: no row decides how another is read.
    """

    trajectory: Text = key(
        "the column of the trajectory's id", "a text", "trajectory", example='"stay_id"'
    )
    step: Text = key(
        "the column that orders a trajectory's rows", "a text", "step", example='"day"'
    )
    state: Text = key("the column of the state", "a text", "state", example='"ward"')
    reward: Text = key("the column of the reward", "a text", "reward", example='"score"')
    action: Text = key(
        "the column of the action, with [actions]", "a text", "action", example='"drug"'
    )
    probability: Text = key(
        "the column of the behaviour's probability of the action, with [policy] behaviour = "
        '"column"',
        "a text",
        "probability",
        example='"propensity"',
    )
    person: Text = key(
        "the column of the person's id; if person is named and trajectory is not, each person has "
        "one trajectory",
        "a text",
        "person",
        example='"patient_id"',
    )
    id_type: Literal["text", "integer"] = key(
        "how ids are read: as texts (a number becomes its usual text), or as whole numbers",
        '"text" or "integer"',
        "text",
        example='"integer"',
    )
    step_type: Literal["integer", "number", "date", "datetime"] = key(
        "how steps are read",
        '"integer", "number", "date" or "datetime"',
        "integer",
        example='"date"',
    )
    step_format: str | None = key(
        "how dates or times are written in text, if not as 2026-11-15 or 2026-11-15T08:30",
        'a text of strptime codes, e.g. "%d.%m.%Y"',
        None,
        example='"%d.%m.%Y"',
        min_length=2,
    )
    invalid: Literal["refuse", "drop-unit"] = key(
        "what happens if a row cannot be read: the run ends with an error, or the whole trajectory "
        "(person) is left out",
        '"refuse" or "drop-unit"',
        "refuse",
        example='"drop-unit"',
    )
    missing: list[str] = key(
        "which texts mean that a state, an action, a reward or a step is missing",
        "a list of texts",
        [""],
        example='["", "NA"]',
    )
    decimal: Literal[".", ","] = key(
        "the decimal mark of numbers in text", '"." or ","', ".", example='","'
    )
    delimiter: str | None = key(
        "the character that separates the cells of a CSV file; if left out, the heading shows it",
        'one character that is neither a letter, a digit nor a quote, e.g. ";"',
        None,
        example='";"',
        min_length=1,
        max_length=1,
    )
    encoding: str = key(
        "the encoding of CSV files",
        '"utf-8", "utf-16", or an encoding of one byte per character, e.g. "latin-1" or "cp1252"',
        "utf-8",
        example='"cp1252"',
    )
    sorted: StrictBool = key(
        "whether rows are in order of person, trajectory and step; this is checked while reading",
        "true or false",
        False,
        example="true",
    )
    truncated: Text | None = key(
        "the column that marks trajectories as cut off: one row with true, yes or 1 is enough, "
        "other rows have false, no or 0; see [values] truncated",
        "a text",
        None,
        example='"cut"',
    )

    @property
    def one_trajectory_per_person(self) -> bool:
        """Return whether the person's id is the trajectory's too: only person is named."""
        return "person" in self.given and "trajectory" not in self.given


def one_character_at_a_time(encoding: str) -> bool:
    """Return whether no character of one row can change how the next row is read.

    This is true of UTF-8 and UTF-16, and of encodings with one byte for each character that agree
    with ASCII, so that ends of lines are where they seem to be.
    """
    ascii_bytes = bytes(range(128))
    try:
        name = codecs.lookup(encoding).name
        if name in {"utf-8", "utf-8-sig", "utf-16"}:
            return True
        if "escape" in name:
            return False
        one_each = len(bytes(range(256)).decode(name, errors="replace")) == 256
        same = ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
        return one_each and same
    except (LookupError, ValueError, TypeError):
        return False
