"""Build the sections of a study from single keywords: ``epsilon=1.0`` is a key of ``[privacy]``.

What most people need has a keyword of its own; the rest is given by sections. Both make the same
study, key by key. A section may also be written short: ``states=["ill", "well"]``, ``features=X``,
``mechanism="dp-lsw"``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privalue.errors import StudyError
from privalue.study._arrays import is_array, listed
from privalue.study._columns import Columns
from privalue.study._hints import about_unknown
from privalue.study._mechanism import MECHANISM_KEYS, Mechanism, MechanismSection
from privalue.study._section_rules import Section, shown
from privalue.study._sections import (
    About,
    Actions,
    Arms,
    Features,
    Privacy,
    Report,
    States,
    TargetPolicy,
    Values,
    Weights,
)

_KEYS: Mapping[str, tuple[str, ...]] = {
    "study": ("name", "dataset", "period", "trajectories"),
    "privacy": (
        *("epsilon", "delta", "unit", "neighbours"),
        *("max_trajectories_per_person", "max_states_per_trajectory"),
    ),
    "values": ("discount", "rewards", "returns", "unvisited", "start"),
    "states": ("groups", "visits"),
    "report": ("level",),
}
SECTION_OF = {keyword: section for section, keys in _KEYS.items() for keyword in keys}

# Keys that stay where a section is written short: ``states=3`` says nothing of visits.
_BESIDE = {
    "states": ("groups", "visits"),
    "features": ("shrink",),
    "arms": ("column",),
    "actions": ("allowed",),
}

_MAKERS: Mapping[str, Callable[..., Any]] = {
    "study": About,
    "privacy": Privacy,
    "values": Values,
    "states": States,
    "features": Features,
    "weights": Weights,
    "arms": Arms,
    "actions": Actions,
    "policy": TargetPolicy,
    "mechanism": Mechanism,
    "report": Report,
    "data": Columns,
}
_NAMES = {name: name.capitalize() for name in _MAKERS} | {
    "study": "About",
    "data": "Columns",
    "policy": "TargetPolicy",
}
EXAMPLE = (
    'Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-6, '
    'unit="trajectory")'
)


def sections_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a new study.

    Args:
        given: keywords and sections; None is the same as nothing.

    Raises:
        StudyError: a keyword is unknown, is given twice, or has a value that is not allowed.
    """
    written = {name: value for name, value in given.items() if value is not None}
    sections = {
        name: _section(name, written[name]) for name in _MAKERS if written.get(name) is not None
    }
    for name, keys in _by_section(written).items():
        present = _keys_of(sections.get(name))
        _require_once(name, present, keys)
        sections[name] = _made(name, {**present, **keys})
    absent = {"privacy": "epsilon, delta and unit", "values": "discount and returns"}
    absent = {**absent, "states": "states"}
    missing = [words for name, words in absent.items() if name not in sections]
    if missing:
        raise StudyError(f"{' and '.join(missing)} must be given, as in {EXAMPLE}")
    return sections


def changed_sections(present: Mapping[str, Section], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a study with some keywords or sections changed.

    Args:
        present: the sections that the study was given.
        changes: keywords and sections; None takes a key, or a section, back to its default. What
            stands for one key of a section leaves those beside it as they are.
    """
    sections: dict[str, Any] = dict(present)
    for name in _MAKERS:
        if name in changes:
            before = _keys_of(sections.pop(name, None))
            if changes[name] is not None:
                made = sections[name] = _section(name, changes[name])
                beside = {key: before[key] for key in _BESIDE.get(name, ()) if key in before}
                if beside and (made is not changes[name] or _is_bins(made)):  # written short
                    sections[name] = _made(name, {**beside, **_keys_of(made)})
    for name, keys in _by_section(changes).items():
        if changes.get(name) is not None:
            _require_once(name, _keys_of(_section(name, changes[name])), keys)
        merged = {**_keys_of(sections.get(name)), **keys}
        sections[name] = _made(name, {key: v for key, v in merged.items() if v is not None})
    return sections


def _is_bins(section: Any) -> bool:
    """Return whether a section is what ``pv.bins`` returns."""
    return isinstance(section, States) and section.given == {"bins"}


def _require_once(section: str, present: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    """Refuse a key that is given by a keyword, and in the section that is given beside it."""
    for key in keys:
        if key in present:
            raise StudyError(f"{key} is given twice, by itself and in {section}=; give one")


def _by_section(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys that single keywords stand for, by section."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if name == "columns":
            for role, column in _columns(value).items():
                section, key = ("arms", "column") if role == "arm" else ("data", role)
                found.setdefault(section, {})[key] = column
        elif name in SECTION_OF:
            found.setdefault(SECTION_OF[name], {})[name] = value
        elif name not in _MAKERS:
            raise StudyError(about_keyword(name))
    return found


def _columns(value: Any) -> Mapping[str, Any]:
    """Return the columns that were named, by role."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise StudyError(
            f"columns = {shown(value)} is not allowed; it must be a dict of what a column is and "
            'its name, e.g. columns={"trajectory": "stay_id"}'
        )
    for role in value:
        if role not in Columns.model_fields and role != "arm":
            raise StudyError(f"columns: {Columns.unknown_key(str(role))}")
    return value


def section_keys(name: str, value: Any) -> dict[str, Any]:
    """Return the keys of a section: written short, as a dict of them, or as the section itself."""
    return _keys_of(_section(name, value))


def about_keyword(name: str) -> str:
    """Return what to write in place of a keyword that a study does not have."""
    fields = {section: set(_fields(section)) for section in _MAKERS}
    holders = [section for section, keys in fields.items() if name in keys]
    if holders:
        ways = " or ".join(f"{each}=pv.{_NAMES[each]}({name}=...)" for each in holders)
        return f"{name} is not a keyword of its own; write {ways}"
    known = [*_MAKERS, *SECTION_OF, "columns"]
    return f"{name} is not a keyword of a study; {about_unknown(name, known)}"


def where_is(name: str) -> str | None:
    """Return where a study holds what a keyword gave, or None if it is not a keyword."""
    section = "data" if name in Columns.model_fields else SECTION_OF.get(name)
    return None if section is None else f"{section}.{name}"


def _fields(section: str) -> Mapping[str, Any]:
    """Return the keys of a section."""
    if section == "mechanism":
        return MECHANISM_KEYS
    return _MAKERS[section].model_fields  # type: ignore[attr-defined,no-any-return]


def _keys_of(section: Any) -> dict[str, Any]:
    """Return the keys that were written in a section, which may be a dict of them, or absent."""
    if isinstance(section, Section):
        return {name: getattr(section, name) for name in section.given}
    return dict(section or {})


def _made(name: str, keys: Mapping[str, Any]) -> Any:
    """Build a section; an error names the keyword, and not the section."""
    if not all(isinstance(key, str) for key in keys):
        return dict(keys)
    return _MAKERS[name](**keys)


# Sections written short


def _section(name: str, value: Any) -> Any:
    """Return a section, or its keys, for what was given in its place."""
    if isinstance(value, Section | MechanismSection):
        return value
    by_label = (
        (name == "weights" or (name == "actions" and value))
        and isinstance(value, Mapping)
        and not set(value) & {*_fields(name)}
    )
    if name not in _SHORT or (isinstance(value, Mapping) and not by_label):
        return value
    return _SHORT[name](value)


def _states(value: Any) -> Any:
    """Return the states that a number, a list of labels or the name of a file stands for."""
    return _counted_or_listed("states", States, value, "labels, pv.bins(...)")


def _actions(value: Any) -> Any:
    """Return the actions that a number, a list of labels or the name of a file stands for.

    A dict lists the actions that each state allows.
    """
    if isinstance(value, Mapping) and all(map(is_array, value.values())):
        allowed = {str(state): list(map(_label, listed(each))) for state, each in value.items()}
        labels = list(dict.fromkeys(action for each in allowed.values() for action in each))
        return _named("allowed", "actions", Actions, labels=labels, allowed=allowed)
    return _counted_or_listed("actions", Actions, value, "labels, a dict of such a list by state")


def _counted_or_listed(keyword: str, make: Callable[..., Any], value: Any, ways: str) -> Any:
    """Return the section of states or actions, which are counted, or have labels."""
    if isinstance(value, str):
        return make(file=value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return _named("count", keyword, make, count=value)
    if isinstance(value, range) and value.start == 0 and value.step == 1:
        return make(count=len(value))
    if isinstance(value, range) or is_array(value):
        return _named("labels", keyword, make, labels=list(map(_label, listed(value))))
    raise StudyError(
        f"{keyword} = {shown(value)} is not allowed; it must be how many there are, a list of "
        f"their {ways}, or the name of a file"
    )


def _label(value: Any) -> Any:
    """Return a label as a plain value."""
    return value.item() if isinstance(value, np.generic) else value


def _features(value: Any) -> Any:
    """Return the features that a matrix, or the name of its file, stands for."""
    if isinstance(value, str):
        return Features(kind="tabular") if value == "tabular" else Features(file=value)
    if is_array(value):
        return Features(matrix=value)
    raise StudyError(
        f"features = {shown(value)} is not allowed; it must be a matrix with a row for each state, "
        "the name of its file, or pv.Features(...), e.g. pv.Features(size=2)"
    )


def _weights(value: Any) -> Any:
    """Return the weights that an array, a table by label or the name of a file stands for."""
    if isinstance(value, str):
        return Weights(kind="uniform") if value == "uniform" else Weights(file=value)
    if not (isinstance(value, Mapping) or is_array(value)):
        raise StudyError(
            f"weights = {shown(value)} is not allowed; it must be a number for each state, in an "
            'array or by label, "uniform", or the name of a file'
        )
    return _named("values", "weights", Weights, values=value)


def _arms(value: Any) -> Any:
    """Return the arms of these labels."""
    if is_array(value):
        return _named("labels", "arms", Arms, labels=list(map(_label, listed(value))))
    raise StudyError(f"arms = {shown(value)} is not allowed; it must be a list of their labels")


def _mechanism(value: Any) -> Any:
    """Return the mechanism of this name."""
    return _named("name", "mechanism", Mechanism, name=value)


def _named(key: str, keyword: str, make: Callable[..., Any], **keys: Any) -> Any:
    """Build a section from the one key that a keyword stands for; errors name the keyword."""
    try:
        return make(**keys)
    except StudyError as problem:
        said = str(problem)
        raise (
            StudyError(keyword + said.removeprefix(key)) if said.startswith(key) else problem
        ) from None


_SHORT: Mapping[str, Callable[[Any], Any]] = {
    "states": _states,
    "features": _features,
    "weights": _weights,
    "arms": _arms,
    "actions": _actions,
    "mechanism": _mechanism,
}
