"""Every block of code in the documentation runs, in order, page by page; none is passed over.

| block     | what is done with it                                                       |
|-----------|----------------------------------------------------------------------------|
| `python`  | runs, in one namespace a page                                              |
| `sh`      | `privalue` runs; where it cannot, its arguments are parsed; other commands |
|           | must exist                                                                 |
| `toml`    | is a study that loads, and stands in `study.toml` for what follows         |
| `output`  | is what the block before it printed, to the letter                         |
| `sample`  | likewise, but for its numbers: the noise is real                           |
| `text`    | is no code                                                                 |

Anything else fails, and so does an indented block.
"""

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # docs.make is not installed

# Commands that need what a test has not are parsed, not run.
PARSED = {
    "README.md": "tests/house/test_readme.py runs it",
    "docs/install.md": "an environment; tests/house/test_install.py makes one",
    "docs/planning.md": "minutes; tests/cli runs the like",
    "docs/report.md": "a study and data; tests/report runs the like",
    "docs/reproduction.md": "minutes; tests/paper runs the like",
}


def named(page):
    return str(page.relative_to(ROOT))


def written():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists())


def blocks(text):
    """(language, code) of every block, and those that are indented as ("", code)."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        (token.info.strip() if token.type == "fence" else "", token.content)
        for token in tokens
        if token.type in {"fence", "code_block"}
    ]


PAGES = [page for page in written() if blocks(page.read_text())]


class Reader:
    """Goes through a page as a reader would, in a folder of their own."""

    def __init__(self, page):
        self.page = page
        self.names = {}
        self.printed = None

    def read(self, language, code):
        act = getattr(self, f"_{language}", None) if language else None
        assert act is not None, f"{self.page}: a block of {language or 'nothing'}: {code[:60]!r}"
        act(code)

    def _python(self, code):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, self.page, "exec"), self.names)  # noqa: S102 - our own text
        self.printed = printed.getvalue()

    def _sh(self, code):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for line in code.replace("\\\n", " ").splitlines():
                self._command(shlex.split(line, comments=True))
        self.printed = printed.getvalue()

    def _command(self, words):
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if not words:
            return
        name, *rest = words
        if name in {"privalue", ".venv/bin/privalue"}:
            (parse if self.page in PARSED else start)(rest)
        elif name == "make":
            assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M), words
        elif name in {"pip", ".venv/bin/pip"}:
            self._pip(*rest)
        elif name == "sh":
            assert (ROOT / rest[0]).exists(), words
        elif name == "podman":
            assert (ROOT / "Containerfile").exists(), words
        elif name in {"python", "python3", ".venv/bin/python"} and rest[0] == "-m":
            assert importlib.util.find_spec(rest[1]) is not None, words
        elif name in {"python", ".venv/bin/python"}:
            assert (ROOT / rest[0]).exists(), words
        else:
            raise AssertionError(words)

    @staticmethod
    def _pip(act, *words):
        """From a checkout, with extras or without; or a package that one of the extras brings."""
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = known["optional-dependencies"]
        from_checkout = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[-1])
        assert act in {"install", "wheel"}, words
        if from_checkout:
            assert {*(from_checkout[1] or "dev").split(",")} <= {*extras}, words
        else:
            brought = [package for packages in extras.values() for package in packages]
            assert any(package.startswith(words[-1]) for package in brought), words

    def _toml(self, code):
        from privalue import Study

        Path("study.toml").write_text(code)
        Study.load("study.toml")

    def _output(self, code):
        assert self.printed is not None
        assert self.printed == code, f"{self.page} says {code!r}, and it is {self.printed!r}"

    def _sample(self, code):
        assert self.printed is not None
        assert masked(self.printed) == masked(code), f"{self.page}: {self.printed!r}"

    def _text(self, code):
        pass


def masked(text):
    """A text without the digits of its numbers."""
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", text)


def start(words):
    from privalue.cli import run

    assert run(words) == 0, words


def parse(words):
    from privalue.cli import app

    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if words[0] not in command.list_commands(None):
            raise KeyError(words[0])
        command = command.get_command(None, words[0])
        words = words[1:]
    command.make_context("privalue", list(words))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = Reader(named(page))
    for language, code in blocks(page.read_text()):
        reader.read(language, code)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\n1 / 0\n```", ZeroDivisionError),
        ("```python\nprint(1)\n```\n```output\n2\n```", AssertionError),
        ("```python\nprint(1, 'a')\n```\n```sample\n2 b\n```", AssertionError),
        ("```\nunnamed\n```", AssertionError),
        ("Indented:\n\n    code\n", AssertionError),
        ("```ruby\nputs 1\n```", AssertionError),
        ("```sh\nprivalue relaese study.toml\n```", AssertionError),
        ("```sh\ncurl example.org\n```", AssertionError),
        ("```sh\nmake coffee\n```", AssertionError),
        ("```sh\npip install '.[coffee]'\n```", AssertionError),
        ("```sh\npip install coffee\n```", AssertionError),
        ("```sh\nsh deploy/coffee.sh\n```", AssertionError),
        ("```toml\n[privacy]\nepsilon = 1\n```", ValueError),
    ],
)
def test_a_block_that_does_not_run_is_caught(text, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    *fine, (language, code) = blocks(text)
    reader = Reader("page.md")
    for before in fine:
        reader.read(*before)
    with pytest.raises(complaint):
        reader.read(language, code)


@pytest.mark.parametrize("words", [["release", "study.toml", "--oops"], ["oops"]])
def test_a_command_that_is_only_parsed_is_checked_too(words):
    with pytest.raises((KeyError, typer.exceptions.TyperException)):
        parse(words)


def test_the_documentation_stays_small():
    pages = [page for page in written() if page.is_relative_to(ROOT / "docs")]
    assert len(pages) <= 45
    assert sum(len(page.read_text().split()) for page in pages) <= 70_000
    made = (ROOT / "docs" / "make").glob("*.py")
    assert sum(len(path.read_text().splitlines()) for path in made) <= 200


def test_every_test_that_the_documentation_names_exists():
    for page in written():
        for name in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text()):
            assert (ROOT / name).exists() or "NAME" in name, f"{named(page)}: {name}"


def test_every_page_that_the_code_names_exists():
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", path.read_text(encoding="utf-8")):
                assert (ROOT / name).exists(), f"{path.relative_to(ROOT)}: {name}"


def test_the_numbers_that_are_compared_are_those_of_the_tables():
    """The tables there are made by programs; what is copied from them must not grow old."""
    readme, peers = (ROOT / "README.md").read_text(), (ROOT / "docs" / "peers.md").read_text()
    measured = peers.partition("### The chain at (1, 1e-6)")[2].partition("#### add-remove")[0]
    rows = re.findall(r"^\| (privalue|PipelineDP|Tumult Analytics|OpenDP), ([^|]+) \| "
                      r"([\d.]+) \| ([^|]*) \|$", peers, re.M)  # fmt: skip
    assert len(rows) == 4
    for library, what, error, seconds in rows:
        took = rf" [\d.]+ \| {re.escape(seconds)} \|"
        row = rf"\| {library} \| (?:Polars, )?{re.escape(what)} \| ([\d.]+) ± [\d.]+ \|{took}"
        found = re.search(row, measured)
        assert found, (library, what)
        half_a_digit = 0.5 * 10.0 ** -len(error.partition(".")[2])  # pages may round
        assert abs(float(found[1]) - float(error)) <= half_a_digit * (1 + 1e-9), (library, what)
        assert f"| {error} |" in readme
    for constant in ("no privacy | 0.000457", "the constant 0.5 | 0.252"):
        assert constant in measured
        assert f"| {constant.split()[-1]} |" in readme
    reproduced = (ROOT / "docs" / "reproduction.md").read_text()
    for first in ("| 1,100,000 |", "| 340 (3,200 x) |"):
        assert first in reproduced
    assert "1,100,000 trajectories, and privalue 340" in readme


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 620


def test_every_hazard_is_answered():
    """What privalue does about it, what remains for the user, where it is tested."""
    hazards = (ROOT / "docs" / "guarantee.md").read_text().partition("## Hazards")[2]
    found = {}
    for part in re.split(r"^#### ", hazards, flags=re.M)[1:]:
        name, _, said = part.partition("\n")
        found[name] = dict(re.findall(r"^- \*\*(privalue|You|Tests):\*\* (\S.*)$", said, re.M))
        assert len(found[name]) == 3, name
    untested = [name for name, answer in found.items() if "`tests/" not in answer["Tests"]]
    assert len(found) > 20
    assert len(untested) == 2, untested


MOST_WORDS = 40


def long_cells(text):
    """The cells of a page's tables that are too long to read in a table."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    rows = [line.strip("|") for line in text.splitlines() if line.startswith("|")]
    return [cell for row in rows for cell in row.split(" | ") if len(cell.split()) > MOST_WORDS]


def test_cells_of_tables_are_short():
    """A longer text wants to be a list or a section; the glossary has sentences on purpose."""
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "glossary.md"]
    assert {page.name: found for page in pages if (found := long_cells(page.read_text()))} == {}
    assert long_cells(f"| a | {'word ' * (MOST_WORDS + 1)} |") != []
