"""Fill templates: every text is escaped, and a page loads nothing from elsewhere and runs nothing.

There are two environments with the same templates for sentences: one for pages, which escapes, and
one for plain text. A page is one file, to mail, print and archive: its style is part of it, and a
policy in its head refuses whatever else would run or load.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from privalue.errors import plural
from privalue.report import numbers
from privalue.report.description import Description, Notice

PUBLIC_MARK = "privalue-public-page"  # in the first bytes of a page, whatever its name
MOST_ROWS = 2000  # of a table on a page; a longer one shows the first 100
HEAD_ROWS = 100
_STYLES = {"colours": "colours.css", "tables_style": "tables.css", "page_style": "page.css"}
_TEMPLATES = Path(__file__).parent / "templates"
# Characters that HTML may not hold, even escaped: C0 and C1 controls, surrogates, non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 80  # characters of a label; the files have them all


def shorten(text: object, most: int = _LONGEST) -> str:
    """Return a text of at most so many characters: names often differ at their ends."""
    whole, end = str(text), most // 2
    if len(whole) <= most:
        return whole
    return f"{whole[: most - end - 1].rstrip()}…{whole[len(whole) - end :].lstrip()}"


def _isolate(text: object, most: int = _LONGEST) -> Markup:
    """Return a text that somebody else chose: its direction stays its own."""
    return Markup("<bdi>") + escape(shorten(text, most)) + Markup("</bdi>")


def join_names(names: Sequence[object], most: int = 3, label: Any = shorten) -> Any:
    """Return names in one line; of many, the first ones."""
    apart = "; " if any("," in str(name) for name in names[:most]) else ", "
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    joined = Markup(apart) if label is _isolate else apart
    return joined.join(label(name) for name in names[:most]) + rest


def _yaml(value: Any) -> str:
    """Return a value as JSON, which is YAML; readers of YAML 1.1 take 1e-06 for a text."""
    if isinstance(value, float) and "." not in repr(value):
        return repr(value).replace("e", ".0e")
    return json.dumps(value, allow_nan=False)


@cache
def environment(*, is_html: bool) -> Environment:
    """Return where templates are found, and what they may call."""
    label = _isolate if is_html else shorten
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "label": label,
        "names": lambda names, most=3: join_names(names, most, label),
        "bounds": numbers.format_bounds,
        "range": lambda bounds: f"[{numbers.format_bounds(bounds).replace(' to ', ', ')}]",
        "exact": lambda number: numbers.format_number(number, 6),
        "number": numbers.format_number,
        "share": numbers.format_share,
        "power": numbers.format_power,
        "percent": lambda share: f"{100 * share:g}%",
        "plural": plural,
        "yaml": _yaml,
    }
    made.globals |= {
        "say": lambda notice: _say(made, notice),
        **{
            name: Markup((_TEMPLATES / file).read_text(encoding="utf-8"))
            for name, file in _STYLES.items()
        },
        "most_rows": MOST_ROWS,
        "head_rows": HEAD_ROWS,
    }
    return made


def _say(made: Environment, notice: Notice) -> Any:
    """Return the sentence of a notice, from the block of its code."""
    if "text" in notice.about:
        return notice.about["text"]
    block = getattr(made.get_template("notices.txt").module, notice.code.replace("-", "_"))
    return block(SimpleNamespace(**notice.about))  # a dict has methods of names that we use


def say(notice: Notice) -> str:
    """Return the sentence of a notice as plain text."""
    return str(_say(environment(is_html=False), notice))


def sentence(code: str, **about: Any) -> str:
    """Return a sentence that several outputs have, as plain text."""
    return say(Notice(code, "note", about))


def render(template: str, description: Description, **more: Any) -> str:
    """Return a page, a part of a page, or a text, by the ending of the template's name."""
    made = environment(is_html=template.endswith(".html"))
    text = made.get_template(template).render(d=description, **more)
    return _FORBIDDEN.sub("\ufffd", text)
