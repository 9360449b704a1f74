"""Package and tests stay within their size, functions are short, and the core explains itself."""

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privalue"
EXPLAINED = 0.4  # lines of explanation for a line of code
MOST_MODULES = 9  # of the core
LONGEST = 80  # lines of code of a function; the kernel is one loop over rows
# Lines of code; who needs more says in the same commit what goes.
MOST_OF_PACKAGE = 17_000
MOST_OF_TESTS = 22_000
MOST_AT_ROOT = 18  # packages and modules


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
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent and token.string:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines - documented_lines(text)


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


def test_package_and_tests_stay_within_their_size():
    for folder, most in ((SOURCE, MOST_OF_PACKAGE), (ROOT / "tests", MOST_OF_TESTS)):
        assert sum(map(lines_of_code, folder.rglob("*.py"))) <= most, folder
    names = [path for path in SOURCE.iterdir() if path.name != "__pycache__"]
    assert len(names) <= MOST_AT_ROOT


def test_the_core_has_few_modules():
    assert len([path for path in core() if path.name != "__init__.py"]) <= MOST_MODULES


def test_no_function_but_the_kernel_is_long():
    long = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        code = code_lines(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                inside = code & {*range(node.lineno, node.end_lineno + 1)}
                long |= {(path.name, node.name)} if len(inside) > LONGEST else set()
    assert long == {("kernel.py", "gather")}


def test_the_core_explains_itself():
    code, words = (sum(map(count, core())) for count in (lines_of_code, lines_of_explanation))
    assert words >= EXPLAINED * code
