"""Compiled kernels are kept where there is room for them, and nothing on a disk makes them fail."""

import ast
import importlib.util
import shutil
from pathlib import Path

import numba
import pytest

import privalue
from privalue.core._compiler import user_cache

KERNEL = """
from privalue.core._kernels import kernel

@kernel(nogil=True)
def twice(number):
    return 2 * number
"""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A module with a kernel, and the folders in which it may be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    (tmp_path / "module.py").write_text(KERNEL)
    return tmp_path


def loaded(places):
    """A new process would compile anew, and so does the module if it is loaded again."""
    described = importlib.util.spec_from_file_location("module", places / "module.py")
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module.twice


def kept(folder):
    return sorted(path.suffix for path in folder.rglob("*.nb?"))


def no_folder(path):
    """A file in its place: even root cannot write there."""
    shutil.rmtree(path, ignore_errors=True)
    path.touch()


def from_cache(function):
    return sum(function.stats.cache_hits.values())


def test_beside_the_source_and_found_again(places):
    assert loaded(places)(21) == 42
    assert kept(places / "__pycache__") == [".nbc", ".nbi"]
    again = loaded(places)
    assert again(21) == 42
    assert from_cache(again) == 1


def test_where_the_environment_says(places, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(places / "chosen"))
    assert loaded(places)(21) == 42
    assert kept(places / "chosen") == kept(places) == [".nbc", ".nbi"]


def test_in_the_users_folder(places):
    no_folder(places / "__pycache__")
    assert loaded(places)(21) == 42
    assert kept(places / "user" / "privalue") == [".nbc", ".nbi"]


def test_in_memory_where_there_is_no_place(places):
    no_folder(places / "__pycache__")
    no_folder(places / "user")
    assert loaded(places)(21) == 42
    assert kept(places) == []


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_a_file_that_was_cut_short_is_made_anew(places, ending):
    assert loaded(places)(21) == 42
    (file,) = (places / "__pycache__").glob(f"*{ending}")
    file.write_bytes(file.read_bytes()[:5])
    assert loaded(places)(21) == 42


def test_a_place_that_is_gone_when_it_is_needed(places):
    function = loaded(places)
    assert function.compiled is function.compiled  # from here on it has chosen its place
    no_folder(places / "__pycache__")
    assert function(21) == 42


def test_nobody_has_no_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "~")  # as it is where nobody knows the user
    assert user_cache() is None
    monkeypatch.setenv("HOME", "/somewhere")
    assert user_cache() == Path("/somewhere/.cache/privalue")


def test_all_kernels_are_compiled_in_one_place():
    source = Path(privalue.__file__).parent
    importing = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "numba" for name in names):
                importing.add(path.name)
    assert importing == {"_compiler.py"}
