"""Let mkdocstrings show the examples of docstrings as code.

Examples here follow the text directly (``>>> ...``), as doctest reads them. The parser of Google's
style takes them for text unless they stand under a heading, so they are put into a fence.
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=\n *\n|\Z)", re.MULTILINE | re.DOTALL)


class FencedExamples(griffe.Extension):
    """Put the examples of every docstring into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with a fence around its examples.

    >>> fenced("Add.").splitlines()
    ['Add.']
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
