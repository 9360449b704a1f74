"""Statistics, batches and encoded rows of data, as the readers give them."""

from os.path import isdir
from pathlib import Path

from privalue.readers import read_statistics
from privalue.readers.declaration import Declaration
from privalue.readers.open import open_source
from privalue.readers.rows import Encoder


def statistics(data, study, **options):
    study = with_truncation_rule(data, study)
    return read_statistics(data, study, study.limits, **options)


def with_truncation_rule(data, study):
    """The study, with ``truncated_rows`` where a Minari dataset needs it."""
    is_minari = isinstance(data, str) and data.startswith("minari:")
    folder = isinstance(data, str | Path) and isdir(data) and any(Path(data).rglob("metadata.json"))
    if study.data.truncated_rows is None and (is_minari or folder or hasattr(data, "storage")):
        return study.replace(truncated_rows="keep")
    return study


def declaration(study):
    return Declaration.of(study, study.limits.keys)


def open_data(data, study):
    study = with_truncation_rule(data, study)
    return open_source(data, declaration(study).dialect)


def batches(data, study):
    """The batches of a source, each as it is read."""
    study = with_truncation_rule(data, study)
    return (task() for task in open_data(data, study).tasks(declaration(study).text_types))


def encode(data, study):
    """The rows of each batch as numbers."""
    study = with_truncation_rule(data, study)
    encoder = Encoder(declaration(study))
    return map(encoder, batches(data, study))
