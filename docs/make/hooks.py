"""What MkDocs calls while it builds the site: formulas, reference tables, sample pages.

A problem is logged as a warning, and ``--strict`` makes every warning an error.
"""

import logging
import re
import tempfile
import warnings
from html import unescape
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import griffe
import typer
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

import privalue
from docs.make import samples
from privalue.cli import app
from privalue.study import SECTIONS, describe_key

_log = logging.getLogger("mkdocs.privalue")
_PROJECT = ("CHANGELOG", "CONTRIBUTING", "SECURITY")  # pages of the site that are not below docs
_PROJECT_LINK = re.compile(rf"\]\((?:\.\./)*({'|'.join(_PROJECT)})\.md")
_TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_BOOST = {"proofs/": 0.3, "python.md": 0.3, "decisions.md": 0.3, "changelog.md": 0.1}
_LONG = 30  # characters of TeX from which a formula in a line may be wider than a phone
_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=\n *\n|\Z)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's own pages, and a sample of what a release writes."""
    root = Path(config.config_file_path).parent
    # Not every system has a font for formulas; ziamath ships a free one.
    font = distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf")
    files.append(File.generated(config, "assets/math.ttf", abs_src_path=str(font)))
    for name in _PROJECT:
        text = (root / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in samples.make(Path(folder)):
            page = path.read_text(encoding="utf-8")
            files.append(File.generated(config, f"samples/{path.name}", content=page))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fill in what is made from the code, aim links, and weigh the page for the search."""
    for beginning, boost in _BOOST.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    if page.file.src_uri == "study.md":
        markdown = markdown.replace("<!-- keys -->", study_keys())
    if page.file.src_uri == "commands.md":
        markdown = markdown.replace("<!-- commands -->", commands())
    if page.file.src_uri == "python.md":
        names = [f"::: privalue.{name}" for name in privalue.__all__ if name != "__version__"]
        markdown = markdown.replace("<!-- names -->", "\n\n".join(names))
    up = "../" * page.file.src_uri.count("/")
    return _PROJECT_LINK.sub(lambda match: f"]({up}{match[1].lower()}.md", markdown)


def study_keys() -> str:
    """Return every section and key of a study file: meaning, what is allowed, default."""
    parts = []
    for section, model in SECTIONS.items():
        says = (model.__doc__ or "").partition(": ")[2]
        parts.append(f"## [{section}]\n\n{says[:1].upper()}{says[1:]}\n")
        parts.append("| key | meaning | allowed | default |\n|---|---|---|---|")
        for key, field in model.model_fields.items():
            default = "required" if field.is_required() else f"`{field.default}`"
            default = "none" if field.default is None else default
            default = "from other keys" if field.default_factory is not None else default
            entry = describe_key(section, key)
            meaning, allowed = entry["about"], entry["allowed"]
            parts.append(f"| `{key}` | {meaning} | {allowed} | {default} |")
        parts.append("")
    return "\n".join(parts)


def commands() -> str:
    """Return the help of every command, as Typer writes it."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="privalue")
    return "## " + text.partition("\n## ")[2]


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Set formulas as MathML, which browsers draw by themselves."""

    def formula(match: re.Match[str]) -> str:
        block = match["tag"] == "div"
        tex = re.sub(r"\\(ln|log|exp) ", r"\\\1\\,", unescape(match["tex"]).strip())
        tex = re.sub(r"\\(max|min|sup)_", r"\\\1\\limits_", tex) if block else tex
        mathml = convert(tex, display="block" if block else "inline")
        mathml = re.sub(r"<mo>(&#x0(?:2016|007C);)", r'<mo stretchy="false" lspace="0">\1', mathml)
        mathml = re.sub("<mi>([\u0391-\u03a9])<", r'<mi mathvariant="normal">\1<', mathml)
        if re.search(r"<mi>(?:\\|&<)", mathml):
            _log.warning("%s: formula %s", page.file.src_uri, tex)
        wide = block or len(tex) > _LONG
        kind = "formula" if block else "wide"
        return f'<span class="{kind}" tabindex="0">{mathml}</span>' if wide else mathml

    return _TEX.sub(formula, html)


class FencedExamples(griffe.Extension):
    """Show examples of docstrings as code: they follow the text without a heading."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put the examples of one docstring into a fence."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)
