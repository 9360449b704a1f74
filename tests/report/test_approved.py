"""One approved text for each output, compared whole: wording is looked at here, and nowhere else.

``PRIVALUE_APPROVE=1 pytest tests/report/test_approved.py`` keeps what there is; read the diff.
"""

import os
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

import privalue as pv
from privalue.cli import terminal
from privalue.cli.console import SafeConsole
from privalue.report import (
    describe,
    describe_diagnostics,
    describe_plan,
    write_private_page,
    write_report,
)
from report import samples

APPROVED = Path(__file__).parent / "approved"


def text_of(description, **how):
    text = StringIO()
    terminal.print_description(description, console=SafeConsole(file=text, width=100), **how)
    return text.getvalue()


def of_release(kind):
    return text_of(describe(samples.release(kind)), sections=("result",), with_verdict=True)


class Text(HTMLParser):
    """The text of a page, a line for each block."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.is_style = [], False
        self.feed(page)

    def handle_starttag(self, tag, _):
        self.is_style = tag == "style"
        if tag in {"p", "li", "h1", "h2", "tr", "dt", "summary", "caption", "div"}:
            self.parts.append("\n")
        elif tag in {"td", "th", "dd"}:
            self.parts.append(" | ")

    def handle_data(self, data):
        if not self.is_style:
            self.parts.append(data.replace("\n", " "))

    def __str__(self):
        lines = (" ".join(line.split()) for line in "".join(self.parts).splitlines())
        return "\n".join(line for line in lines if line) + "\n"


def release_text(name, **answers):
    with TemporaryDirectory() as folder:
        files = write_report(samples.release("arms"), Path(folder), answers=answers)
        return files[name].read_text()


def private_page():
    dropping = samples.make_study(invalid="drop-unit")
    *rows, last = samples.rows_of("states")
    query = pl.LazyFrame([*rows, {**last, "trajectory": -1, "state": "no ward"}])
    with TemporaryDirectory() as folder:
        page = Path(folder) / "private.html"
        write_private_page(pv.inspect(dropping, query), page)
        return str(Text(page.read_text()))


def improved_page():
    with TemporaryDirectory() as folder:
        files = pv.improve(samples.release("actions")).save(Path(folder) / "policy.csv")
        return str(Text(files[-1].read_text()))


def plan():
    visits = dict.fromkeys(samples.WARDS, 0.9)
    result = pv.plan(samples.make_study(), trajectories=5000, visits=visits)
    return text_of(describe_plan(result))


OUTPUTS = {
    "check": lambda: text_of(pv.check(samples.make_study()).description, sections=("study",)),
    "plan": plan,
    "release": lambda: of_release("states"),
    **{kind: lambda kind=kind: of_release(kind) for kind in samples.STUDIES if kind != "states"},
    "inspect": lambda: text_of(
        describe_diagnostics(pv.inspect(samples.make_study(), samples.rows_of("states"))),
        sections=("private",),
    ),
    "page": lambda: str(Text(release_text("page", justification="agreed with the board"))),
    "registry": lambda: release_text("registry"),
    "private-page": private_page,
    "improved-page": improved_page,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_is_as_approved(output):
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", OUTPUTS[output]())
    text = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", text)
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    file = APPROVED / f"{output}.txt"
    if os.environ.get("PRIVALUE_APPROVE"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
