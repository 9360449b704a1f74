"""Define the section ``[data]``: the names of the columns, and what their cells are."""

import codecs
from typing import Literal

from pydantic import StrictBool, model_validator

from privalue.study._section_rules import Section, key


class Columns(Section):
    """``[data]``: the names of the columns, and what their cells are.

    A cell is read by what is declared here and by nothing else: no row decides how another is read.
    """

    trajectory: str = key("the column of the trajectory's id", "a text", "trajectory", min_length=1)
    step: str = key("the column that orders a trajectory's rows", "a text", "step", min_length=1)
    state: str = key("the column of the state", "a text", "state", min_length=1)
    reward: str = key("the column of the reward", "a text", "reward", min_length=1)
    action: str = key("the column of the action, with [actions]", "a text", "action", min_length=1)
    probability: str = key(
        "the column of the behaviour's probability of the action, with [policy] behaviour = "
        '"column"',
        "a text",
        "probability",
        min_length=1,
    )
    person: str = key(
        "the column of the person's id; if person is named and trajectory is not, each person has "
        "one trajectory",
        "a text",
        "person",
        min_length=1,
    )
    id_type: Literal["text", "integer"] = key(
        "how ids are read: as texts (a number becomes its usual text), or as whole numbers",
        '"text" or "integer"',
        "text",
    )
    step_type: Literal["integer", "number", "date", "datetime"] = key(
        "how steps are read",
        '"integer", "number", "date" or "datetime"',
        "integer",
    )
    step_format: str | None = key(
        "how dates or times are written in text, if not as 2026-11-15 or 2026-11-15T08:30",
        'a text of strptime codes, e.g. "%d.%m.%Y"',
        None,
        min_length=2,
    )
    invalid: Literal["refuse", "drop-unit"] = key(
        "what happens if a row cannot be read: the run ends with an error, or the whole trajectory "
        "(person) is left out",
        '"refuse" or "drop-unit"',
        "refuse",
    )
    missing: list[str] = key(
        "which texts mean that a state, an action, a reward or a step is missing",
        "a list of texts",
        [""],
    )
    decimal: Literal[".", ","] = key("the decimal mark of numbers in text", '"." or ","', ".")
    delimiter: str | None = key(
        "the character that separates the cells of a CSV file; if left out, the heading shows it",
        'one character, e.g. ";"',
        None,
        min_length=1,
        max_length=1,
    )
    encoding: str = key(
        "the encoding of CSV files",
        '"utf-8", "utf-16", or an encoding of one byte per character, e.g. "latin-1" or "cp1252"',
        "utf-8",
    )
    sorted: StrictBool = key(
        "whether rows are in order of person, trajectory and step; this is checked while reading",
        "true or false",
        False,
    )
    truncated: str | None = key(
        "the column that marks trajectories as cut off: one row with true, yes or 1 is enough, "
        "other rows have false, no or 0; see [values] truncated",
        "a text",
        None,
        min_length=1,
    )

    @model_validator(mode="after")
    def _readable(self) -> "Columns":
        """Refuse declarations that contradict each other, or with which rows depend on others."""
        names = [self.trajectory, self.step, self.state, self.reward, self.person]
        names += [] if self.truncated is None else [self.truncated]
        if len(set(names)) < len(names):
            raise ValueError("two keys name the same column; each needs its own")
        if self.step_format is not None and self.step_type not in {"date", "datetime"}:
            raise ValueError(
                f'step_format applies to step_type = "date" or "datetime", and step_type = '
                f'"{self.step_type}"; change step_type, or remove step_format'
            )
        if self.delimiter is not None and (
            not self.delimiter.isascii() or self.delimiter in '"\r\n' or self.delimiter.isalnum()
        ):
            raise ValueError(
                f"delimiter = {self.delimiter!r} cannot separate cells; it is one character that "
                'is neither a letter, a digit nor a quote, e.g. ";"'
            )
        if not one_character_at_a_time(self.encoding):
            raise ValueError(
                f'encoding = "{self.encoding}" is not read; it must be "utf-8", "utf-16", or an '
                'encoding of one byte a character, e.g. "latin-1" or "cp1252"'
            )
        if self.sorted and self.invalid == "drop-unit":
            raise ValueError(
                'sorted = true goes with invalid = "refuse" only: rows out of order are an error '
                'of all rows, and with "drop-unit" nothing may be one; remove sorted'
            )
        return self

    @property
    def one_trajectory_per_person(self) -> bool:
        """Return whether the person's id is the trajectory's too: only person is named."""
        return "person" in self.given and "trajectory" not in self.given


def one_character_at_a_time(encoding: str) -> bool:
    """Return whether no character of one row can change how the next row is read.

    This is true of UTF-8 and UTF-16, and of encodings with one byte for each character that agree
    with ASCII, so that ends of lines are where they seem to be.
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return False
    if name in {"utf-8", "utf-8-sig", "utf-16"}:
        return True
    if "escape" in name:
        return False
    ascii_bytes = bytes(range(128))
    try:  # a table of 256 characters, with the line's end where ASCII has it
        one_each = len(bytes(range(256)).decode(name, errors="replace")) == 256
        return one_each and ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
    except (LookupError, ValueError, TypeError):
        return False
