"""What several tests of the readers need."""

import pytest

from privalue.readers import csv, episodes, files, local, tables


@pytest.fixture
def small_batches(monkeypatch):
    """Boundaries everywhere: a few rows to a batch, a block and a pass."""
    monkeypatch.setattr(tables, "BATCH_ROWS", 5)
    monkeypatch.setattr(episodes, "BATCH_ROWS", 5)
    monkeypatch.setattr(files, "READ_ROWS", 7)
    monkeypatch.setattr(csv, "BLOCK_BYTES", 100)
    monkeypatch.setattr(local, "LEAST_BYTES", 2000)
