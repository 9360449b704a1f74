"""Write a study as a file, with what it names or holds beside it."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp

from privalue.core import Matrix
from privalue.errors import UsageError
from privalue.ledger.files import whole_file
from privalue.study._side_files import SideFile
from privalue.study._study import Study
from privalue.study._template import study_template


def save(study: Study, path: Path, files: Sequence[SideFile], *, replace: bool) -> Path:
    """Write a study and its side files.

    Args:
        study: all that is public.
        path: the file that it goes to; the others go to the same folder.
        files: the side files that the study has read, with their contents.
        replace: whether files that hold something else give way.
    """
    keys = {
        (section, key): getattr(getattr(study, section), key)
        for section in study.given
        for key in getattr(study, section).given
    }
    contents: dict[str, bytes] = {}
    for file in sorted(files, key=lambda file: _leads_out(file.name)):  # these give way to others
        section, _, key = file.key.removeprefix("[").partition("] ")
        wanted, content = file.name, file.content
        if key == "matrix":
            assert study.feature_matrix is not None
            wanted, content = _array(study.feature_matrix, path.stem)
            del keys["features", "matrix"]
            key = "file"
        name = _free(wanted, content, {path.name: None, **contents})
        keys[section, key], contents[name] = name, content
    written = {where: toml(value) for where, value in keys.items() if value is not None}
    contents[path.name] = study_template(written, starting={}).encode()  # last: it names the others
    targets = {path.parent / name: content for name, content in contents.items()}
    for target, content in targets.items():
        _require_room(target, content, replace)
    for target, content in targets.items():
        _write(target, content)
    return path


def _array(matrix: Matrix, stem: str) -> tuple[str, bytes]:
    """Return the name and the content of a file for a matrix: dense, or sparse."""
    buffer = io.BytesIO()
    if isinstance(matrix, np.ndarray):
        np.save(buffer, matrix, allow_pickle=False)
        return f"{stem}-features.npy", buffer.getvalue()
    sp.save_npz(buffer, matrix)
    return f"{stem}-features.npz", buffer.getvalue()


def _leads_out(name: str) -> bool:
    """Return whether the name of a side file leads out of the study's folder."""
    given = PurePath(name)
    return given.is_absolute() or ".." in given.parts


def _free(name: str, content: bytes, taken: Mapping[str, bytes | None]) -> str:
    """Return a name in the study's folder that nothing else has; some folders fold the case."""
    given = PurePath(PurePath(name).name if _leads_out(name) else name)
    held = {other.casefold(): what for other, what in taken.items()}
    kept, number = given, 1
    while held.get(kept.as_posix().casefold(), content) != content:
        number += 1
        kept = given.with_name(f"{given.stem}-{number}{given.suffix}")
    return kept.as_posix()


def _require_room(target: Path, content: bytes, replace: bool) -> None:
    """Refuse to write over a file that holds something else."""
    if replace or not os.path.lexists(target):
        return
    try:
        same = target.is_file() and target.read_bytes() == content
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}") from None
    if not same:
        raise UsageError(
            f"{target} exists and holds something else; give another name, or replace=True"
        )


def _write(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            partial.write_bytes(content)
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}") from None


def toml(value: Any) -> str:
    """Return a value of the study as TOML writes it.

    >>> toml({"ill": 0.5, "very ill": 1e-6}), toml([1, True])
    ('{ "ill" = 0.5, "very ill" = 1e-06 }', '[1, true]')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inside = ", ".join(f"{toml(str(key))} = {toml(entry)}" for key, entry in value.items())
        return f"{{ {inside} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return repr(value)
