"""What a notebook shows: self-contained, escaped, at most 20 rows, and nothing private."""

import re
from html.parser import HTMLParser

import pytest
from IPython.core.formatters import DisplayFormatter

import privalue as pv
from api.conftest import described, seeded
from oracles.private_types import SECRETS, instances

EVIL = "</style><script>alert(1)</script>\u202e&\"'<img src=x onerror=alert(1)>"


class Shown(HTMLParser):
    """The tags and the texts of a piece of HTML, which must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.said, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.said.append(data)

    @property
    def words(self):
        return "".join(self.said)

    def rows(self):
        return self.tags.count("tr")


@pytest.fixture(scope="module")
def everything(release, armed, other, study):
    return {
        "release": release,
        "armed": armed,
        "other": other,
        "study": study,
    }


def bundle(value):
    """What IPython would send to the notebook."""
    return DisplayFormatter().format(value)[0]


NAMES = ["release", "armed", "other", "study"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_one_piece_that_needs_nothing_else(everything, name):
    text = bundle(everything[name])["text/html"]
    shown = Shown(text)
    assert set(shown.tags) <= {
        *("div", "style", "p", "bdi", "span", "table", "thead", "tbody", "tr", "th", "td"),
        *("ul", "li", "svg", "g", "title", "desc", "rect", "line", "circle", "path", "text"),
    }
    names = [name for name, _ in shown.attributes]
    assert not [name for name in names if name.startswith("on") or name in {"src", "href"}]
    style = "".join(re.findall("<style>(.*?)</style>", text, re.S))
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in text.replace("http://www.w3.org", "")


def test_a_release_shows_headline_plot_table_and_sentence(release, private_release):
    shown = Shown(release._repr_html_())
    assert "recovery: values of 4 states, dp-ssp, epsilon 1, delta 1e-06" in shown.words
    assert "NOT PRIVATE" in shown.words
    assert ("class", "pv-stop") in shown.attributes
    assert shown.tags.count("svg") == 2  # wide, and narrow
    assert shown.rows() == 1 + 4
    assert "too few visits" in shown.words
    private = Shown(private_release._repr_html_())
    assert private_release.sentence() in private.words
    assert ("class", "pv-stop") not in private.attributes


def test_many_states_are_twenty_rows_and_say_so(study):
    many = study.model_copy(update={"states": {"count": 50}})
    release = seeded(many, [[(0, 0.5), (49, 1.0)]] * 900)
    shown = Shown(release._repr_html_())
    assert shown.rows() == 1 + 20
    assert "These are 20 of 50 values, of which 48 have a flag" in shown.words
    assert "release.to_pandas() has all of them" in shown.words
    assert Shown(many._repr_html_()).words.count("(50 in all)") == 1


def test_arms_stand_beside_each_other(armed):
    shown = Shown(armed._repr_html_())
    assert "4 states in 2 arms" in shown.words
    assert shown.rows() == 1 + 8


def test_the_policys_number_is_shown(study):
    values = {**study.values.model_dump(exclude_none=True), "start": {"ill": 1.0}}
    release = seeded(study.model_copy(update={"values": values}))
    assert re.search(r"The policy as a whole: 0\.\d+ \(0\.\d+ to 0\.\d+\)", release._repr_html_())


def test_texts_of_others_are_escaped():
    evil = described(study={"name": EVIL, "dataset": "clinic"}).model_copy(
        update={"states": {"labels": ["ill", "better", "well", EVIL]}}
    )
    release = seeded(evil)
    for shown in (release, evil):
        text = shown._repr_html_()
        assert "<script" not in text
        assert "<img" not in text
        assert "script" not in Shown(text).tags
        assert "alert(1)" in Shown(text).words


def test_a_study_shows_whom_it_protects(study):
    words = Shown(study._repr_html_()).words
    assert "Study recovery" in words
    assert "a trajectory, replace-one" in words
    assert "epsilon, delta1, 1e-06" in words
    assert "ill, better, well, rare <b>" in words


def test_the_ids_of_two_outputs_differ(release, armed):
    def ids(value):
        return {text for name, text in Shown(value._repr_html_()).attributes if name == "id"}

    assert ids(release)
    assert not ids(release) & ids(armed)
    assert ids(release) == ids(pv.Release.parse(release.to_json()))  # outputs can be compared


@pytest.mark.parametrize("name", sorted(instances()))
def test_a_private_type_shows_its_shape_only(name):
    shown = bundle(instances()[name])
    assert set(shown) == {"text/plain", "text/html"}
    for text in shown.values():
        assert text.startswith(f"{name.split('.')[-1]}(private")
        assert not any(secret in text for secret in SECRETS)
        assert not re.search("[<>&]", text)
