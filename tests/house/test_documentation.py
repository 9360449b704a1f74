"""Every block of code in the documentation runs, in order, page by page; none is skipped.

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

import ast
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
    "docs/planning.md": "minutes; tests/cli runs such commands",
    "docs/report.md": "a study and data; tests/report runs such commands",
    "docs/reproduction.md": "minutes; tests/paper runs such commands",
}


def relative(page):
    return str(page.relative_to(ROOT))


def pages():
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).exists())


def blocks(text):
    """(language, code) of every block, and those that are indented as ("", code)."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        (token.info.strip() if token.type == "fence" else "", token.content)
        for token in tokens
        if token.type in {"fence", "code_block"}
    ]


PAGES = [page for page in pages() if blocks(page.read_text())]
SLOW = {"docs/sources.md"}  # it starts Spark


class Reader:
    """Run the blocks of a page as a reader would, in a folder of their own."""

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
        name = name.removeprefix(".venv/bin/")
        if name == "privalue":
            (parse if self.page in PARSED else start)(rest)
        elif name == "make":
            assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M), words
        elif name == "pip":
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", rest[-1])
            assert not extras or {*(extras[1] or "dev").split(",")} <= {
                *project["optional-dependencies"]
            }, words
        elif name in {"python", "python3"} and rest[0] == "-m":
            assert importlib.util.find_spec(rest[1]) is not None, words
        elif name in {"python", "sh"}:
            assert (ROOT / rest[0]).exists(), words
        else:
            assert name == "podman", words

    def _toml(self, code):
        from privalue import Study

        Path("study.toml").write_text(code)
        Study.load("study.toml")

    def _output(self, code):
        assert self.printed is not None
        assert self.printed == code, f"{self.page} says {code!r}, and it is {self.printed!r}"

    def _sample(self, code):
        assert self.printed is not None
        assert mask(self.printed) == mask(code), f"{self.page}: {self.printed!r}"

    def _text(self, code):
        pass


def mask(text):
    """A text without the digits of its numbers."""
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", text)


def start(words):
    from privalue.cli import run

    assert run(words) == 0, words


def parse(words):
    from privalue.cli import app

    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.get_command(None, words[0]), words[1:]
    command.make_context("privalue", list(words))


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.long if relative(p) in SLOW else ()) for p in PAGES],
    ids=relative,
)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = Reader(relative(page))
    for language, code in blocks(page.read_text()):
        reader.read(language, code)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\n1 / 0\n```", ZeroDivisionError),
        ("```python\nprint(1)\n```\n```output\n2\n```", AssertionError),
        ("```python\nprint(1, 'a')\n```\n```sample\n2 b\n```", AssertionError),
        ("Indented:\n\n    code\n", AssertionError),
        ("```sh\nprivalue relaese study.toml\n```", AssertionError),
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


def test_every_test_that_the_documentation_names_exists():
    for page in pages():
        for name in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text()):
            assert (ROOT / name).exists() or "NAME" in name, f"{relative(page)}: {name}"


def test_the_list_of_mistakes_is_true_and_complete():
    """Every test that it names exists, and every test that says it plants something is named."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    rows = re.findall(r"`(tests/[\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", text)
    listed = {(file, f"test_{name}") for file, names in rows for name in re.findall(r"\w+", names)}
    there, planted = set(), set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                there.add((relative(path), node.name))
                if "planted" in f"{node.name} {ast.get_docstring(node)}".lower():
                    planted.add((relative(path), node.name))
    assert listed - there == set()
    assert planted - listed == set()
