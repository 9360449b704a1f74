"""What several tests of the readers need."""

import pytest

from privalue.readers import _encode as encode
from privalue.readers import _local as local
from privalue.readers import _objects as objects
from privalue.readers import _partition as partition
from privalue.readers import _sources as sources


@pytest.fixture
def small_batches(monkeypatch):
    """Boundaries everywhere: a few rows to a part, a chunk, a task and a partition."""
    monkeypatch.setattr(encode, "PART_ROWS", 3)
    monkeypatch.setattr(objects, "BATCH_ROWS", 5)
    monkeypatch.setattr(sources, "READ_ROWS", 7)
    monkeypatch.setattr(local, "TASK_ROWS", 8)
    monkeypatch.setattr(partition, "PARTITION_BYTES", 200)
