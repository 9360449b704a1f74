"""Parse the name of a world, such as ``chain:N=40,p=0.5``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from privalue.errors import UsageError
from privalue.simulation._icu_sepsis import icu_sepsis
from privalue.simulation._policies import POLICIES, share_of
from privalue.simulation._toy_text import environment_options, toy_text
from privalue.simulation._worlds import World, chain, garnet


class _Key(NamedTuple):
    """A parameter in the text: the builder's argument, and what the value must be."""

    argument: str
    kind: type[int] | type[float] | tuple[str, ...]


_START = _Key("start", ("uniform", "first"))
_POLICY = _Key("policy", POLICIES)
_DISCOUNT = _Key("discount", float)

_BUILT_IN: dict[str, tuple[Callable[..., World], dict[str, _Key]]] = {
    "chain": (
        chain,
        {
            "N": _Key("states", int),
            "p": _Key("stay", float),
            "start": _START,
            "discount": _DISCOUNT,
        },
    ),
    "garnet": (
        garnet,
        {
            "N": _Key("states", int),
            "A": _Key("actions", int),
            "branching": _Key("branching", int),
            "least_end": _Key("least_end", float),
            "most_end": _Key("most_end", float),
            "seed": _Key("seed", int),
            "policy": _POLICY,
            "start": _START,
            "discount": _DISCOUNT,
        },
    ),
    "icu-sepsis": (
        icu_sepsis,
        {
            "policy": _Key("policy", ("expert", *POLICIES)),
            "discount": _DISCOUNT,
        },
    ),
}


def parse_world(text: str) -> World:
    """Return the world that a text names, such as ``chain`` or ``chain:N=40,p=0.5,start=first``.

    Raises:
        UsageError: if the name or a key is unknown, or a value is not of its kind.
        StudyError: if a value is outside what the world allows.
        MissingComponentError: if the world needs an extra that is not installed.

    Example:
        >>> parse_world("chain:N=3,p=0.25").text
        'chain:N=3,p=0.25,start=uniform,discount=0.99'
    """
    name, _, rest = (part.strip() for part in text.partition(":"))
    items = [item.strip() for item in rest.split(",") if item.strip()]
    if name == "gym":
        return _gym(items)
    if name not in _BUILT_IN:
        raise UsageError(f"unknown world {name!r}{_suggestion(name, [*_BUILT_IN, 'gym'])}")
    builder, keys = _BUILT_IN[name]
    arguments = {}
    spelled = {known.argument: key for key, known in keys.items()}
    for key, value in _settings(name, items, keys, spelled):
        arguments[keys[key].argument] = _converted(key, value, keys[key].kind)
    return builder(**arguments)


def _gym(items: list[str]) -> World:
    """Return the world of a Gymnasium environment, whose name is the first item."""
    if not items or "=" in items[0]:
        raise UsageError("gym needs an environment first, as in gym:FrozenLake-v1,policy=uniform")
    environment, *rest = items
    keys = {"policy": _POLICY, "discount": _DISCOUNT}
    arguments: dict[str, Any] = {}
    options = environment_options(environment)
    for key, value in _settings(environment, rest, [*keys, *options]):
        arguments[key] = _converted(key, value, keys[key].kind) if key in keys else _guessed(value)
    return toy_text(environment, **arguments)


def _settings(
    name: str, items: list[str], known: Iterable[str], spelled: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Split the items into keys and values; refuse unknown and repeated keys.

    Args:
        name: of the world.
        items: as they were written.
        known: the keys that it has.
        spelled: the key for what others call it, such as N for states.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, _, value = (part.strip() for part in item.partition("="))
        if not key or not value:
            raise UsageError(f"{item!r} is not a setting; write key=value, separated by commas")
        if key not in known:
            raise UsageError(
                f"{name} has no parameter {key!r}{_suggestion(key, known, spelled or {})}"
            )
        if key in pairs:
            raise UsageError(f"{name} is given {key} twice; give it once")
        pairs[key] = value
    return list(pairs.items())


def _converted(key: str, value: str, kind: type[int] | type[float] | tuple[str, ...]) -> Any:
    """Convert a value to the kind that its key needs."""
    if isinstance(kind, tuple):
        # A share of the optimal policy is the only word with a number in it.
        if value not in kind and (POLICIES[-1] not in kind or share_of(value) is None):
            raise UsageError(f"{key} is {value!r}; it must be {' or '.join(kind)}")
        return value
    try:
        return kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise UsageError(f"{key} is {value!r}; it must be {wanted}") from None


def _guessed(value: str) -> str | int | float | bool:
    """Convert a value to a truth value or a number where it reads like one.

    The environment alone knows what its options must be, and checks them.
    """
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def _suggestion(wrong: str, known: Iterable[str], spelled: Mapping[str, str] | None = None) -> str:
    """Return the end of a message about an unknown name: the nearest one, and all of them."""
    names = {**(spelled or {}), **{name.lower(): name for name in known}}
    near = difflib.get_close_matches(wrong.lower(), list(names), n=1)
    hint = f"; did you mean {names[near[0]]!r}?" if near else ";"
    return f"{hint} known: {', '.join(known)}"
