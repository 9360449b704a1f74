"""Typeset mathematics: TeX becomes MathML, and plain text gets subscripts and powers.

Formulas between dollars are TeX. The proofs also have formulas in plain text (``e^{-kβ} φ_k(v')``,
``||x|| <= 1``), readable in any editor; the site sets them with `<sub>`, `<sup>` and proper signs.
"""

import re
from html import escape, unescape
from xml.etree import ElementTree

from latex2mathml.converter import convert

_SPACE = "http://www.w3.org/1998/Math/MathML"
_UNDER = {"max", "min", "sup", "inf", "lim"}  # operators with their limits below them
_PAIRS = {"mfrac", "msub", "msup", "munder", "mover"}  # elements that must have two parts
_BARS = {"|", "‖"}
_SIGNS = (("<=", "≤"), (">=", "≥"), ("->", "→"), ("+-", "±"), ("||", "‖"))
_BRACES = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_LOWERED = re.compile(
    rf"(?<=[\w~°)\]|‖'∫∑Σ])(?P<sign>[_^])(?P<what>{_BRACES}|\([^()\s]+\)|[+-]?[0-9]+|[A-Za-zα-ω∞+]+)"  # noqa: RUF001
)


_TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_TAG = re.compile(r"(<[^>]*>)")
_LITERAL = {"code", "pre", "math", "script", "style", "svg"}  # whose text stays as it is


class TexError(ValueError):
    """TeX that cannot be set."""


def mathml(tex: str, *, display: bool) -> str:
    """Return MathML of a formula, which every current browser sets by itself.

    Raises:
        TexError: something in it is not understood.
    """
    ElementTree.register_namespace("", _SPACE)
    spaced = re.sub(r"\\(ln|log|exp) ", r"\\\1\\,", tex.strip())
    try:
        tree = ElementTree.fromstring(convert(spaced).replace("<mi>&</mi>", "<mi>&amp;</mi>"))
    except Exception as problem:
        raise TexError(f"{tex!r}: {problem!r}") from None
    tree.set("display", "block" if display else "inline")
    for node in tree.iter():
        text = (node.text or "").strip()
        if "\\" in text or text == "&":
            raise TexError(f"{tex!r}: {text} is not understood")
        if node.tag.rpartition("}")[2] in _PAIRS and len(node) != 2:
            raise TexError(f"{tex!r}: something is missing")
        if node.tag.endswith("}mi") and "Α" <= text <= "Ω":  # noqa: RUF001
            node.set("mathvariant", "normal")  # capital Greek is upright, as in TeX
        if text in _BARS and "fence" not in node.attrib:
            node.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
        if display and node.tag.endswith("}msub") and (node[0].text or "") in _UNDER:
            node.tag = f"{{{_SPACE}}}munder"
    return ElementTree.tostring(tree, encoding="unicode")


def set_mathematics(html: str) -> tuple[str, list[str]]:
    """Set the formulas of a page: TeX as MathML, and those in plain text.

    Returns:
        The page, and a line for each formula that cannot be set.
    """
    problems: list[str] = []

    def formula(found: re.Match[str]) -> str:
        display = found["tag"] == "div"
        try:
            made = mathml(unescape(found["tex"]), display=display)
        except TexError as problem:
            problems.append(str(problem))
            return ""
        return f'<div class="formula" tabindex="0">{made}</div>' if display else made

    parts = _TAG.split(_TEX.sub(formula, html))
    literal = 0
    for at, part in enumerate(parts):
        if not at % 2:
            if part.strip() and not literal:
                parts[at] = lettered(unescape(part))
            continue
        name = part.strip("</>").split()[0]
        if name in _LITERAL and not part.endswith("/>"):
            literal += -1 if part.startswith("</") else 1
    return "".join(parts), problems


def lettered(text: str) -> str:
    """Return HTML of plain text: subscripts lowered, powers raised, signs replaced.

    >>> lettered("n_s <= 2^30")
    'n<sub>s</sub> ≤ 2<sup>30</sup>'
    """
    for plain, sign in _SIGNS:
        text = text.replace(plain, sign)
    parts, end = [], 0
    for found in _LOWERED.finditer(text):
        what = found["what"]
        grouped = what.startswith("{") or (what.startswith("(") and len(what) > 3)
        inner = what[1:-1] if grouped else what  # in x^(q) the brackets stay: it is a name
        tag = "sub" if found["sign"] == "_" else "sup"
        parts.append(f"{escape(text[end : found.start()])}<{tag}>{lettered(inner)}</{tag}>")
        end = found.end()
    return "".join([*parts, escape(text[end:])])
