"""What a notebook shows: self-contained, escaped, at most 20 rows, and nothing private."""

from html.parser import HTMLParser

import pytest

import privalue as pv


class Shown(HTMLParser):
    """The tags, attributes and words of a part of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words += data


@pytest.mark.parametrize("kind", ["release", "armed", "other", "plan", "study"])
def test_it_loads_and_runs_nothing_and_has_no_ids(kind, request):
    shown = Shown(request.getfixturevalue(kind)._repr_html_())
    assert not set(shown.tags) & {"script", "img", "link", "iframe", "object"}
    assert not [name for name, _ in shown.attributes if name in {"id", "src", "href"}]
    assert not [name for name, _ in shown.attributes if name.startswith("on")]


def test_a_release_says_what_it_is_and_a_label_stays_a_text(release, private_release):
    shown = Shown(release._repr_html_())
    assert "NOT PRIVATE" in shown.words
    assert "rare <b>" in shown.words
    private = Shown(private_release._repr_html_())
    assert "NOT PRIVATE" not in private.words
    assert "(1, 1e-06)-differentially private" in private.words


def test_diagnostics_show_nothing(study):
    from api.conftest import PEOPLE

    diagnostics = pv.inspect(study, PEOPLE)
    assert diagnostics._repr_html_() == repr(diagnostics)
    assert repr(diagnostics) == "Diagnostics(private, mechanism='dp-ssp', states=4)"
