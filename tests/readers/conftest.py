"""Fixtures of the readers' tests: small limits of memory, small batches."""

import pytest


@pytest.fixture(scope="package", autouse=True)
def little_memory():
    """Allow limits so small that small tables take several passes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privalue.readers.local.MIN_MEMORY", 0)
        yield


@pytest.fixture
def small_batches(monkeypatch):
    """Put a few rows into a batch, a block and a pass, so that units straddle all of them."""
    monkeypatch.setattr("privalue.readers.source.BATCH_ROWS", 5)
    monkeypatch.setattr("privalue.readers.tables.BATCH_ROWS", 5)
    monkeypatch.setattr("privalue.readers.episodes.BATCH_ROWS", 5)
    monkeypatch.setattr("privalue.readers.files.READ_ROWS", 7)
    monkeypatch.setattr("privalue.readers.csv.BLOCK_BYTES", 100)
    monkeypatch.setattr("privalue.readers.local.MIN_ROW_BYTES", 2000)
