"""Render templates: every text is escaped, and a page loads no other files and runs no scripts.

There are two environments with the same templates for sentences: one for pages, which escapes, and
one for plain text. A page is a single file, to mail, print and archive: it contains its style, and
a content security policy forbids everything else.
"""

import json
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from privalue.errors import plural
from privalue.report import numbers
from privalue.report.description import PRIVACY, Description, Fact, Notice
from privalue.report.guarantee import format_detection, odds_factor

PUBLIC_MARK = "privalue-public-page"  # in the first bytes of a page, whatever its name
_TEMPLATES = Path(__file__).parent / "templates"
# Characters that HTML may not hold, even escaped: C0 and C1 controls, surrogates, non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 80  # characters of a label on a page; the CSV files have whole labels


def shorten(text: object, most: int = _LONGEST) -> str:
    """Shorten a text in the middle, since names often differ at their ends."""
    whole, end = str(text), most // 2
    if len(whole) <= most:
        return whole
    return f"{whole[: most - end - 1].rstrip()}…{whole[len(whole) - end :].lstrip()}"


def _isolate(text: object, most: int = _LONGEST) -> Markup:
    """Return an untrusted text, isolated so that its direction does not affect the page."""
    return Markup("<bdi>") + escape(shorten(text, most)) + Markup("</bdi>")


def _yaml(value: Any) -> str:
    """Return a value as JSON, which is YAML; YAML 1.1 would read 1e-06 as a text, so 1.0e-06."""
    if isinstance(value, float) and "." not in repr(value):
        return repr(value).replace("e", ".0e")
    return json.dumps(value, allow_nan=False)


@cache
def environment(*, is_html: bool) -> Environment:
    """Return the Jinja2 environment of pages or of plain texts, with our filters."""
    env = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {
        "label": _isolate if is_html else shorten,
        "bounds": numbers.format_bounds,
        "range": lambda bounds: f"[{numbers.format_bounds(bounds).replace(' to ', ', ')}]",
        "exact": lambda number: numbers.format_number(number, 6),
        "number": numbers.format_number,
        "power": numbers.format_power,
        "interval": numbers.format_row,
        "odds": odds_factor,
        "detection": format_detection,
        "digits": lambda number: f"{number:.6g}",
        "percent": lambda share: f"{100 * share:g}%",
        "plural": plural,
        "yaml": _yaml,
    }
    env.globals |= {"privacy_head": PRIVACY, "sentence": sentence}
    env.globals["say"] = lambda notice: _say(env, notice)
    return env


def _block(env: Environment, file: str, code: str) -> Any:
    """Return the block of a code in a file of sentences, or None."""
    name = code.replace("-", "_").replace(".", "_")
    return getattr(env.get_template(file).module, name, None)


def _say(env: Environment, notice: Notice) -> Any:
    """Return the sentence of a notice, from the block of its code."""
    if "text" in notice.about:  # a notice of planning, which brings its sentence
        text = notice.about["text"]
        return f"{text[:1].upper()}{text[1:]}."
    block = _block(env, "notices.txt", notice.code) or _block(env, "commands.txt", notice.code)
    return block(SimpleNamespace(**notice.about))  # a dict's methods would clash with our names


def say_notice(notice: Notice) -> str:
    """Return the sentence of a notice as plain text."""
    return str(_say(environment(is_html=False), notice))


def sentence(code: str, **about: Any) -> str:
    """Return the sentence of a code as plain text."""
    return say_notice(Notice(code, "note", about))


def fact(key: str, value: Any, **about: Any) -> Fact:
    """Return a fact, with the label and text of its key's block, if there is one.

    Args:
        key: of the fact.
        value: of the fact.
        about: further values for the text.
    """
    block = _block(environment(is_html=False), "facts.txt", key)
    if block is None:
        return Fact(key, value)
    text = block(value, SimpleNamespace(**about)) if about else block(value)
    return Fact(key, value, *str(text).split(": ", 1))


def render(template: str, description: Description, **more: Any) -> str:
    """Return a page, a part of a page, or a text, by the ending of the template's name."""
    env = environment(is_html=template.endswith(".html"))
    return replace_controls(env.get_template(template).render(d=description, **more))


def notebook_html(description: Description, **sections: str) -> str:
    """Return the HTML of a description for a notebook.

    Args:
        description: the description.
        sections: titles of the sections of facts to show, by section.
    """
    return render("notebook.html", description, sections=sections)


def load_page() -> None:
    """Compile the page's templates, so that a failure to load comes before the charge."""
    for name in ("report.html", "parts.html", "notices.txt"):
        environment(is_html=True).get_template(name)
    for name in ("registry.yaml", "notices.txt", "commands.txt", "facts.txt"):
        environment(is_html=False).get_template(name)


def replace_controls(text: str) -> str:
    """Return a text without the characters that neither HTML nor XML may hold."""
    return _FORBIDDEN.sub("\ufffd", text)
