"""Define what a section of a study is: keys with a meaning and limits, checked and frozen.

An error is a ``StudyError`` of one line: what, which value, what is allowed, what to do.
"""

import difflib
import math
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from privalue.errors import StudyError

# Numbers are multiplied and squared: beyond these, doubles would over- or underflow.
SMALLEST, LARGEST = 1e-30, 1e30


def _number(value: object) -> float:
    """Return a finite number as a double; refuse truth values, texts and NaN."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number


def _whole(value: object) -> int:
    """Return a whole number; refuse truth values and floats."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError
    return int(value)


Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]


def key(meaning: str, allowed: str, default: Any = ..., **limits: Any) -> Any:
    """Describe a key of the study.

    Args:
        meaning: what it means, for the reference.
        allowed: what is allowed, for the reference and for errors.
        default: its value if it is left out; without one it must be given.
        limits: what pydantic enforces, as for ``Field``.
    """
    return Field(default, description=meaning, json_schema_extra={"allowed": allowed}, **limits)


class Section(BaseModel):
    """A group of keys that are checked when it is built, and frozen."""

    holds_sections: ClassVar[bool] = False
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    def __init__(self, /, **keys: Any) -> None:
        try:
            super().__init__(**keys)
        except ValidationError as problem:
            raise StudyError(explain(problem, type(self))) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the same with some keys changed, all of it checked again."""
        return type(self)(**self._changed(update))

    def _changed(self, update: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the keys that somebody wrote down, with the changes."""
        return {**{name: getattr(self, name) for name in self.given}, **(update or {})}

    @classmethod
    def model_construct(  # type: ignore[override]  # pydantic's plugin hides the keys
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Build a section like the constructor: there is no way around the checks."""
        return cls(**values)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise StudyError(_is_frozen(name))
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise StudyError(_is_frozen(name))

    @classmethod
    def unknown_key(cls, written: str) -> str:
        """Return in one line what is wrong with a key that the section does not have."""
        return f"{written} is not a key of a study; {meant(written, cls.model_fields)}"

    @property
    def given(self) -> frozenset[str]:
        """Return the keys that somebody wrote down."""
        return frozenset(self.model_fields_set)


def meant(written: str, known: Collection[str]) -> str:
    """Return which of the known names somebody may have meant, or all of them."""
    near = difflib.get_close_matches(written, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def explain(problem: ValidationError, model: type["Section"]) -> str:
    """Return the first error in one line: what, which value, what is allowed, what to do.

    Args:
        problem: what pydantic found.
        model: the section, or the study, that was being built.
    """
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = str(first["loc"][0]) if first["loc"] else ""
    whole = model.holds_sections
    heading = f"[{key}]" if whole else key
    if first["type"] == "extra_forbidden":
        return model.unknown_key(key)
    # Of a key that may be one of several things, one may say what is wrong in words of its own.
    causes = (e.get("ctx", {}).get("error") for e in errors if e["loc"][:1] == first["loc"][:1])
    cause = next((said for said in causes if said is not None and str(said)), None)
    if cause is not None:  # a check that spans keys, or a section's own complaint
        return f"{heading} {cause}" if key else str(cause)
    field = model.model_fields[key]
    if whole:
        if first["type"] == "missing":
            section: Any = field.annotation
            keys = [name for name, entry in section.model_fields.items() if entry.is_required()]
            needed = ", ".join(keys or ["count, labels, file or bins"])
            return f"{heading} is missing; it needs {needed}"
        return f"{heading} must be a section of the study, not {shown(first['input'])}"
    allowed = allowed_values(field)
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{heading} is missing; it must be {allowed}"
    return f"{heading} = {shown(first['input'])} is not allowed; it must be {allowed}"


def allowed_values(field: FieldInfo) -> str:
    """Return what a key may be, in words."""
    extra = field.json_schema_extra
    return str(extra["allowed"]) if isinstance(extra, dict) else ""


def _is_frozen(name: str) -> str:
    """Return what to do instead of changing a key in place."""
    return f"{name} cannot be changed: a study is frozen; make another one with study.replace(...)"


def _as_written(value: object) -> str:
    """Return a value as a study file has it, as far as that is possible."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_written, value[:60]))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def shown(value: object) -> str:
    """Return a value as an error shows it, cut if it is long."""
    try:
        text = _as_written(value)
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= 60 else text[:57] + "..."
