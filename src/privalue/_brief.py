"""Keep help brief: a class shows its own names and its arguments, not what it is built on.

``help`` of a pydantic model lists some hundred names of pydantic's, and says nothing of the fields.
Here ``dir`` has the public names of our own classes, which is what ``help`` and completion go by,
signatures have plain types, and ``explained`` is a docstring with every field and its default.
"""

import textwrap
from inspect import Parameter, Signature, cleandoc, signature
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_WIDTH = 84  # of a line of help, without the margin that ``help`` adds

if TYPE_CHECKING:  # checkers know pydantic's own, and what it does to a class
    from pydantic._internal._model_construction import ModelMetaclass as Brief
else:

    class Brief(type(BaseModel)):
        """The type of brief classes: ``dir`` of a class is what is meant for its users."""

        def __dir__(cls) -> list[str]:
            """Return the names that the class shows, or all public ones that are ours."""
            own = _own(cls)
            return sorted(own.intersection(cls.shown_in_help or own))


class BriefModel(BaseModel, metaclass=Brief):
    """A pydantic model whose help and completion leave out what pydantic brings."""

    shown_in_help: ClassVar[tuple[str, ...]] = ()  # the names that help shows; all, if empty

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Replace the signature, which has all that pydantic checks."""
        del cls.__signature__

    def __dir__(self) -> list[str]:
        """Return the fields and the public names that are ours."""
        return sorted(_own(type(self)) | set(type(self).model_fields))


class _PlainSignature:
    """The signature of a model: plain types, or the names that its own constructor takes."""

    def __get__(self, _: object, cls: type[BaseModel]) -> Signature:
        if "__init__" in vars(cls):
            parameters = signature(vars(cls)["__init__"]).parameters.values()
            return Signature(
                [each.replace(annotation=each.empty) for each in parameters if _by_name(each)]
            )
        hints = get_type_hints(cls)
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.is_required() else field.get_default(),
                    annotation=hints[name],
                )
                for name, field in cls.model_fields.items()
            ]
        )


def _by_name(parameter: Parameter) -> bool:
    """Return whether a parameter is given by name."""
    return parameter.kind is Parameter.KEYWORD_ONLY


setattr(BriefModel, "__signature__", _PlainSignature())  # noqa: B010 - pydantic says it is another


def explained(cls: type[BaseModel]) -> str:
    """Return the docstring of a class with every field: what it means, and its default."""
    told = cleandoc(cls.__dict__.get("__doc__") or "")
    fields = [_argument(name, field) for name, field in cls.model_fields.items()]
    return "\n".join([told, "", "Args:", *fields])


def _own(cls: type) -> set[str]:
    """Return the public names that our own classes define."""
    ours = [kind for kind in cls.__mro__ if kind.__module__.startswith("privalue")]
    return {
        name
        for kind in ours
        for name in vars(kind)
        if not name.startswith(("_", "model_")) and name != "shown_in_help"
    }


def _argument(name: str, field: FieldInfo) -> str:
    """Return the lines of one field."""
    extra: Any = field.json_schema_extra
    allowed = (extra or {}).get("allowed", "")
    told = "required" if field.is_required() else f"default {_plain(field.get_default())}"
    text = f"{name}: {field.description}; {allowed} ({told})."
    return textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="        ")


def _plain(default: object) -> str:
    """Return a default as somebody would write it."""
    return "none" if default is None or default == () else repr(default)
