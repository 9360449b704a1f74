"""What a notebook shows: self-contained, escaped, at most 20 rows, and nothing private."""

from html.parser import HTMLParser

import pytest

import privalue as pv


class Shown(HTMLParser):
    """The tags and attributes of a part of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


@pytest.mark.parametrize("kind", ["release", "armed", "other", "plan", "study"])
def test_it_loads_and_runs_nothing_and_has_no_ids(kind, request):
    shown = Shown(request.getfixturevalue(kind)._repr_html_())
    assert not set(shown.tags) & {"script", "img", "link", "iframe", "object"}
    assert not [name for name, _ in shown.attributes if name in {"id", "src", "href"}]
    assert not [name for name, _ in shown.attributes if name.startswith("on")]


def test_diagnostics_show_nothing(study):
    from api.conftest import PEOPLE

    diagnostics = pv.inspect(study, PEOPLE)
    assert diagnostics._repr_html_() == repr(diagnostics)
    assert repr(diagnostics) == "Diagnostics(private, mechanism='dp-ssp', states=4)"
