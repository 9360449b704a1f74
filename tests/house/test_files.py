"""Files are written whole or not at all."""

import os
import stat

import pytest

from privalue.ledger.files import atomic_file, atomic_write


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_is_private_until_then(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with atomic_file(target, mode=0o644) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_a_failed_write_leaves_the_old_file(tmp_path, failure):
    target = tmp_path / "page.html"
    target.write_text("old")

    def parts():
        yield "half"
        raise failure

    with pytest.raises(failure):
        atomic_write(target, parts())
    assert target.read_text() == "old"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("links", [True, False])
def test_an_existing_file_stays_without_replace(tmp_path, monkeypatch, links):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    target = atomic_write(tmp_path / "release.json", "first", replace=False)
    with pytest.raises(FileExistsError):
        atomic_write(target, "second", replace=False)
    assert target.read_text() == "first"
    assert names(tmp_path) == ["release.json"]


def test_file_and_folder_are_synced_before_the_block_ends(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def watched(handle):
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    target = atomic_write(tmp_path / "kept", "text")
    assert synced == [target.stat().st_ino, tmp_path.stat().st_ino]
