"""The statistics of data, by the door of the readers, and rows on the way there."""

from privalue.readers import read_statistics
from privalue.readers.declaration import Declaration
from privalue.readers.open import open_source
from privalue.readers.rows import Encoder


def statistics(data, study, **options):
    return read_statistics(data, study, study.limits, **options)


def declaration(study):
    return Declaration.of(study, study.limits.keys)


def opened(data, study):
    return open_source(data, declaration(study).dialect)


def batches(data, study):
    """The batches of a source, each as it is read."""
    return (task() for task in opened(data, study).tasks(declaration(study).text_types))


def encoded(data, study):
    """The rows of each batch as numbers."""
    encode = Encoder(declaration(study))
    return map(encode, batches(data, study))
