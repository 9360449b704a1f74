"""The core is a few modules of short functions, and explains itself."""

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privalue"
MOST_MODULES = 9  # of the core, besides __init__
LONGEST = 80  # lines of code of a function
KERNEL = "gather"  # one loop over rows: pieces of it could not be read alone
EXPLAINED = 0.4  # lines of explanation for a line of code


def documented_lines(text):
    lines = set()
    for node in ast.walk(ast.parse(text)):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node):
            lines |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def code_lines(text):
    """The lines that hold code: no blank ones, no comments, no docstrings."""
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent and token.string:
            used |= set(range(token.start[0], token.end[0] + 1))
    return used - documented_lines(text)


def lines_of_code(path):
    return len(code_lines(path.read_text()))


def lines_of_explanation(path):
    """How many lines hold a comment, or words of a docstring."""
    text = path.read_text()
    lines = text.splitlines()
    words = {at for at in documented_lines(text) if lines[at - 1].strip(' "')}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    return len(words | comments)


def core():
    return sorted((SOURCE / "core").rglob("*.py"))


def functions(path):
    """Every function of a file, with its lines of code."""
    text = path.read_text()
    code = code_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node.name, len(code & set(range(node.lineno, node.end_lineno + 1)))


def test_the_core_has_few_modules():
    modules = {path.stem for path in core()} - {"__init__"}
    assert len(modules) <= MOST_MODULES
    assert not any(name.startswith("_") for name in modules)


def test_no_function_of_the_core_is_long_but_the_kernel():
    sizes = {name: size for path in core() for name, size in functions(path)}
    assert {name for name, size in sizes.items() if size > LONGEST} == {KERNEL}


def test_the_core_explains_itself():
    code, words = (sum(map(count, core())) for count in (lines_of_code, lines_of_explanation))
    assert words >= EXPLAINED * code


def test_the_guarantee_names_the_core_s_files():
    page = (ROOT / "docs" / "guarantee.md").read_text()
    for path in core():
        assert f"| `core/{path.name}` |" in page, path.name


def test_code_and_words_are_counted():
    """On a file of four lines of code, one comment and two lines of a docstring."""
    example = SOURCE / "version.py"
    assert lines_of_code(example) == 1
    assert lines_of_explanation(example) == 1
