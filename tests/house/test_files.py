"""Files are written whole or not at all, by one function."""

import os
import stat

import pytest

from privalue.ledger.files import whole_file, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_name_only_once_it_is_whole(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with whole_file(target) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, OSError])
def test_what_fails_leaves_what_was_there(tmp_path, failure):
    target = tmp_path / "page.html"
    target.write_text("old")

    def parts():
        yield "half"
        raise failure

    with pytest.raises(failure):
        write_whole(target, parts())
    assert target.read_text() == "old"
    assert names(tmp_path) == ["page.html"]


def test_a_name_that_is_taken_stays_where_nothing_may_be_replaced(tmp_path, monkeypatch):
    target = tmp_path / "release.json"
    assert write_whole(target, "first", replace=False) == target
    with pytest.raises(FileExistsError):
        write_whole(target, "second", replace=False)

    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(FileExistsError):
        write_whole(target, "second", replace=False)
    write_whole(tmp_path / "other.json", "second", replace=False)
    assert target.read_text() == "first"
    assert names(tmp_path) == ["other.json", "release.json"]


def test_the_owner_alone_reads_what_is_not_whole_yet(tmp_path):
    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    with whole_file(tmp_path / "public", mode=0o644) as partial:
        assert mode(partial) == 0o600
    assert mode(tmp_path / "public") == 0o644
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "any", "text")
    finally:
        os.umask(before)
    assert mode(tmp_path / "any") == 0o640


def test_a_file_and_its_folder_are_on_the_disk_before_the_block_is_left(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def watched(handle):
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    target = write_whole(tmp_path / "kept", "text")
    assert synced == [target.stat().st_ino, tmp_path.stat().st_ino]
