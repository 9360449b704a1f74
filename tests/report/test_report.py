"""What a release leaves in its folder: the page, the registry entry, the table."""

import csv
import io
import json
import math
import re
import stat
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import privalue as pv
from oracles.studies import in_sections, release_anyway
from privalue._folder import PRIVATE_MARK, PUBLIC_FILES
from privalue.cli._app import run
from privalue.releases import ValueTable
from privalue.report import _states as states
from privalue.report._answers import answers_in
from privalue.report._guarantee import detection
from privalue.report._plots import Series, plot_rows
from privalue.report._private_page import private_page, write_private_page
from privalue.report._public_page import public_page
from privalue.report._registry import registry_entry, registry_yaml
from privalue.report._yaml import Unanswered, to_yaml

LABELS = ["ill", "better", "well", "gone"]
NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "مرحبا",
    "\u202eback",
    "👩‍⚕️",
    "</style></title><b>&amp;",
    "line\u2028break",
]


def study(mechanism="dp-ssp", labels=LABELS, **sections):
    return in_sections(
        **{
            "study": {"name": "recovery"},
            "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory"},
            "values": {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
            "states": {"labels": labels},
            "mechanism": {"name": mechanism} if isinstance(mechanism, str) else mechanism,
            **sections,
        }
    )


def people(*counts):
    """So many trajectories that start in each state and go on to the end of the list."""
    return [
        [(label, 0.2718281) for label in LABELS[at:]]
        for at, count in enumerate(counts)
        for _ in range(count)
    ]


def released(chosen, data, **how):
    return release_anyway(chosen, data, entropy=pv.SeededForExperimentsOnly(11), **how)


class Parsed(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self._styles = set(), [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


# The page


@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw", "dp-lsl"])
def test_a_page_holds_nothing_private(mechanism):
    """Counts, psi, sigma and the estimate before noise: none of them, in any of the files."""
    chosen = study(mechanism)
    data = people(1361, 877, 439, 211)  # visits 1361, 2238, 2677; everybody comes to the end
    # Of this seed no noisy number, and no end of its interval, happens to round to a count.
    release = release_anyway(chosen, data, entropy=pv.SeededForExperimentsOnly(13))
    private = pv.inspect(chosen, data).private_fields()
    told = [
        public_page(release, study=chosen),
        registry_yaml(release),
        "".join(states.values_csv(states.state_table(release))),
    ]
    secrets = [count for count in private["counts"] if count != release.trajectories]
    assert len(secrets) == 3
    numbers = [*private["theta"], *private["values"]]
    if mechanism != "dp-ssp":  # there, sigma is public
        numbers += [private["sigma"], private["psi"]]
    for text in told:
        assert leaked(text, secrets, numbers) == []
        planted = f"{text}<p>{secrets[1]:,} visits, {numbers[0]:.7g}</p>"
        assert leaked(planted, secrets, numbers)[:2] == [secrets[1], numbers[0]]


def leaked(text, counts, numbers):
    """The private numbers that a text shows, in any of the ways in which pages write them.

    Counts are looked for as whole numbers: four digits in a row may be anywhere in a hash.
    """
    words = set(re.split(r"[^0-9A-Za-z.,]+", text))
    shown = {word.strip(".,") for word in words}
    found = [count for count in counts if {str(count), f"{count:,}"} & shown]
    return found + [x for x in numbers if any(f"{x:.{n}g}" in text for n in (6, 7, 8))]


def test_texts_of_others_stay_texts():
    chosen = study(
        labels=NASTY,
        study={"name": "</title><script>alert('x')</script>", "dataset": '"><b>'},
    )
    release = released(chosen, [[(label, 0.5) for label in NASTY]] * 300)
    why = "<img src=x onerror=alert(1)>"
    for page in (
        public_page(release, study=chosen, justification=why),
        private_page(pv.inspect(chosen, [[(label, 0.5) for label in NASTY]] * 300)),
    ):
        parsed = Parsed(page)
        assert not parsed.tags & {"img", "b", "iframe", "link", "object", "form"}
        assert page.count("<script") == 1  # our own, which alone the page's policy lets run
        assert not [name for name, _ in parsed.attributes if name.startswith("on")]
        assert {value for name, value in parsed.attributes if name in {"href", "src"}} <= {
            f"#{key}"
            for key in (
                *("content", "guarantee", "values", "flags", "precision", "limits", "public"),
                *("budget", "method", "sign", "notes", "noise", "states", "symbols", "theta"),
            )
        } | {"values.csv", "registry.yaml", "release.json"}
        for label in NASTY:
            assert label in parsed.text
    assert why in Parsed(public_page(release, justification=why)).text


def test_a_hundred_thousand_states_fit_on_a_page_and_nothing_is_lost():
    labels = [f"state number {at}" for at in range(100_000)]
    small = released(study("dp-lsw"), people(50, 50, 50, 50))
    columns = {
        "state": labels,
        "flags": [""] * 100_000,
        "value": np.sin(np.arange(100_000) / 5000),
        "total_low": np.full(100_000, -1.5),
        "total_high": np.full(100_000, 2.5),
    }
    release = small.model_copy(
        update={"tables": {"values": ValueTable(columns)}, "level": 0.9, "trajectories": None}
    )
    page = public_page(release)
    assert len(page.encode()) < 500_000
    assert "The first 100 of 100,000 states; all of them are in" in Parsed(page).text
    text = "".join(states.values_csv(states.state_table(release)))
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 100_001
    value = repr(float(columns["value"][77_000]))
    assert rows[77_001] == [labels[77_000], value, "-1.5", "2.5", rows[77_001][-1]]


def test_no_label_becomes_a_formula_whatever_separates_cells():
    labels = [
        "a;=1+17",
        "a\t=1",
        "a\n=1",
        'a";=1',
        "a =1",
        "a|=1",
        ";=1",
        "\ufeff=1",
        "plain",
        "-1",
    ]
    release = released(study(labels=labels), [[(label, 0.5) for label in labels]] * 300)
    text = "".join(states.values_csv(states.state_table(release)))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0].removeprefix("'") for row in rows[1:]] == labels
    for separator in ";\t| ,":
        for row in list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))[1:]:
            for cell in row:
                assert cell.lstrip("\ufeff")[:1] not in set("=+@"), (separator, row)
                assert cell[:1] != "-" or cell[1:2].isdigit()


def test_groups_of_states_hold_every_state():
    values = np.random.default_rng(3).normal(size=12_345)
    rows = plot_rows(Series(names=range(12_345), values=values))
    assert len(rows) == 30
    starts = [int(row.name.split(" to ")[0]) for row in rows]
    stops = [int(row.name.split(" to ")[-1]) + 1 for row in rows]
    assert starts == [0, *stops[:-1]]
    assert stops[-1] == 12_345
    for row, start, stop in zip(rows, starts, stops, strict=True):
        assert row.span == (min(values[start:stop]), max(values[start:stop]))
        assert row.value == np.median(values[start:stop])


def test_flagged_states_are_counted_beside_their_group_and_not_drawn():
    values, flagged = np.arange(90.0), np.zeros(90, dtype=bool)
    flagged[[1, 6, 7, 8]] = True  # one of the first three; all of the third three
    first, second, third, *_ = plot_rows(Series(names=range(90), values=values, flagged=flagged))
    assert (first.span, first.flag, first.note) == ((0.0, 2.0), "", "1 flagged")
    assert (second.flag, second.note) == ("", "")
    assert (third.span, third.flag) == ((6.0, 8.0), "3 flagged")


def test_a_seeded_release_says_on_its_page_that_it_is_not_private():
    release = released(study(), people(50, 50, 50, 50))
    page = public_page(release)
    assert "NOT PRIVATE" in page
    assert "Nothing is promised" in page
    assert "multiplies or divides those odds" not in page
    entry = yaml.safe_load(registry_yaml(release))
    assert entry["status"].startswith("NOT PRIVATE")
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {}
    assert entry["privalue"]["private"] is False


def test_the_promise_is_told_for_every_unit_and_relation():
    for unit, relation, words in (
        ("trajectory", "replace-one", "replacing one trajectory with any other"),
        ("trajectory", "add-remove", "one trajectory being there or not"),
        ("person", "add-remove", "one person being there or not"),
    ):
        limit = {"max_trajectories_per_person": 3} if unit == "person" else {}
        privacy = {"epsilon": 0.5, "delta": 1e-5, "unit": unit, "neighbours": relation, **limit}
        chosen = study(privacy=privacy)
        rows = {"person": [], "trajectory": [], "step": [], "state": [], "reward": []}
        for number in range(200):
            for column, value in zip(rows, (number, number, 0, "ill", 0.5), strict=True):
                rows[column].append(value)
        import pandas as pd

        page = public_page(pv.release(chosen, pd.DataFrame(rows)))
        assert words in page
        assert "at most 1.65 (e to the power of epsilon = 0.5)" in page  # e^0.5
        assert ("k times epsilon" in page) == (unit == "trajectory")
        assert ("with up to 3 trajectories that count" in page) == (unit == "person")


# What an attacker could tell


@given(epsilon=st.floats(0.0, 6.0), delta=st.floats(0.0, 0.5), alarms=st.floats(0.0, 1.0))
def test_the_best_test_of_the_worst_mechanism_is_as_good_as_the_table_says(epsilon, delta, alarms):
    """[Kairouz, Oh, Viswanath 2015]: four outcomes dominate every (epsilon, delta) mechanism."""
    e = math.exp(epsilon)
    with_one = [delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0.0]
    with_other = with_one[::-1]
    best = linprog([-p for p in with_one], A_ub=[with_other], b_ub=[alarms], bounds=(0, 1))
    assert detection(epsilon, delta, alarms) == pytest.approx(-best.fun, abs=1e-7)


# Flags


def flags_of(release, chosen=None):
    return {row.state: row.flags for row in states.state_table(release)}


# Precision


def test_achieved_precision_is_told_only_where_the_noise_is_public():
    data = people(400, 400, 400, 400)
    secret = public_page(released(study("dp-lsw"), data))
    assert "Not public. The noise of dp-lsw has a scale that depends on the data" in secret
    assert "The scale of the noise is public." in public_page(released(study(), data))


# The registry entry

TEXTS = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=40)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b_c", "d"]),
        TEXTS
        | st.floats(-1e300, 1e300)
        | st.integers()
        | st.booleans()
        | st.none()
        | st.lists(TEXTS, max_size=3),
    )
)
def test_a_yaml_parser_reads_what_was_written(value):
    expected = value or None
    assert yaml.safe_load(to_yaml(value, "two\nlines")) == expected


def test_a_missing_fact_is_null_with_a_comment():
    text = to_yaml({"a": {"b": Unanswered("who knows")}, "c": "x: y\n- z", "d": []})
    assert text == "a:\n  b: null  # who knows\nc: |-\n  x: y\n  - z\nd: []\n"
    assert yaml.safe_load(text) == {"a": {"b": None}, "c": "x: y\n- z", "d": []}


def plain(value):
    if isinstance(value, Unanswered):
        return None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def test_the_registry_entry_says_everything_that_a_registry_asks(tmp_path):
    chosen = study(study={"name": NASTY[0], "dataset": "trial"})
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-4, unit="trajectory")
    release = pv.release(chosen, people(99, 99, 99, 99), ledger=ledger)
    account = ledger.account("trial")
    entry = registry_entry(release, justification="because\n\u2028", account=account)
    read = yaml.safe_load(registry_yaml(release, justification="because\n\u2028", account=account))
    assert read == plain(entry)
    deployment, ours = read["deployment"], read["privalue"]
    # The sections of an entry of the Differential Privacy Deployments Registry, 2026
    assert list(deployment) == [
        *("basic", "dp_variant", "privacy_loss", "deployment_model", "accounting"),
        *("implementation", "administrative"),
    ]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_unit"] == "Trajectory-level"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    assert deployment["implementation"]["justification"] == "because\n\u2028"
    assert "basic composition" in deployment["accounting"]["composition"]
    assert (ours["unit"], ours["relation"]) == ("trajectory", "replace-one")
    assert ours["mechanism"]["name"] == "dp-ssp"
    assert ours["composition"]["ledger_head"] == release.ledger_head
    assert ours["composition"]["dataset_left"] == {"epsilon": 1.0, "delta": 9e-5}
    channels = {channel["channel"] for channel in ours["side_channels"]}
    assert {"floating point", "timing", "randomness", "metadata"} <= channels
    assert "delta = 1e-5" not in registry_yaml(release)
    assert (
        yaml.safe_load(registry_yaml(release))["deployment"]["implementation"]["justification"]
        is None
    )


# Files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "r"\ndataset = "trial"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n'
        'unit = "trajectory"\n[values]\ndiscount = 0.99\nrewards = [0.0, 1.0]\n'
        'returns = [0.0, 1.0]\n[states]\ncount = 5\n[mechanism]\nname = "dp-ssp"\n'
    )
    assert run(["simulate", "chain:N=5", "--trajectories", "300", "--out", "data.parquet"]) == 0
    return tmp_path


def failed(capsys, *arguments):
    capsys.readouterr()
    assert run(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


RELEASE = ("release", "study.toml", "--data", "data.parquet")
INSPECT = ("inspect", "study.toml", "--data", "data.parquet")


def test_a_release_leaves_four_files_that_agree(folder, capsys):
    assert (
        run(
            [
                "ledger",
                "declare",
                "trial",
                "--epsilon",
                "3",
                "--delta",
                "1e-4",
                "--unit",
                "trajectory",
            ]
        )
        == 0
    )
    assert run([*RELEASE, "--out", "r", "--ledger", "ledger.db", "--justification", "agreed"]) == 0
    assert sorted(path.name for path in (folder / "r").iterdir()) == sorted(PUBLIC_FILES)
    release = pv.Release.load(folder / "r")
    text = (folder / "r" / "values.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["state"] for row in rows] == [entry.state for entry in release.values]
    assert [float(row["value"]) for row in rows] == [entry.value for entry in release.values]
    assert [float(row["low"]) for row in rows] == [entry.low for entry in release.values]
    assert (
        yaml.safe_load((folder / "r" / "registry.yaml").read_text())["privalue"]["release"][
            "created"
        ]
        == release.created
    )
    page = (folder / "r" / "report.html").read_text()
    assert release.ledger_head in page
    assert "agreed" in page
    for file in (folder / "r").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    # The page can be made again, from what is public alone, to the letter.
    capsys.readouterr()
    arguments = ["report", "r", "--out", "again.html", "--ledger", "ledger.db"]
    assert run([*arguments, "--justification", "agreed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": ["again.html"]}
    assert (folder / "again.html").read_text() == page


def test_a_report_is_made_beside_a_release_that_has_none(folder, capsys):
    pv.release(pv.Study.load("study.toml"), "data.parquet").save("alone")
    assert run(["report", "alone"]) == 0
    assert sorted(path.name for path in (folder / "alone").iterdir()) == sorted(PUBLIC_FILES)
    assert "use --force" in failed(capsys, "report", "alone")
    assert run(["report", "alone/release.json", "--force", "--study", "study.toml"]) == 0
    assert "on no ledger" in failed(capsys, "report", "alone", "--force", "--ledger", "ledger.db")
    text = (folder / "study.toml").read_text().replace("0.99", "0.98")
    (folder / "other.toml").write_text(text)
    assert "is not the one of this release" in failed(
        capsys, "report", "alone", "--force", "--study", "other.toml"
    )
    assert "must end in .html" in failed(capsys, "report", "alone", "--out", "page.pdf")


DECLARE = ("ledger", "declare", "trial", "--epsilon", "3", "--delta", "1e-4")
FILLED_IN = {
    "data_curators: null  # who holds the data": "data_curators: 'St. Mary''s'  # since May",
    "intended_use: null  # what the values are for": "intended_use: |\n      to plan: wards\n\n"
    "      # and no more",
    "data_product_sector: null  # such as Healthcare": "data_product_sector:\n    - Healthcare",
    "registry_authors: null  # who vouches for this entry": "registry_authors:\n"
    "      - name: A. Author\n        role: steward",
}


def test_a_report_made_again_keeps_what_a_curator_wrote_and_the_budget(folder, capsys, monkeypatch):
    assert run([*DECLARE, "--unit", "trajectory", "--ledger", "ledger.db"]) == 0
    assert run([*RELEASE, "--out", "r", "--ledger", "ledger.db", "--justification", "agreed"]) == 0
    entry, page = (folder / "r" / name for name in ("registry.yaml", "report.html"))
    first = page.read_text()
    text = entry.read_text()
    for null, answer in FILLED_IN.items():
        assert null in text
        text = text.replace(null, answer)
    entry.write_text(text)
    monkeypatch.setenv("PRIVALUE_LEDGER", "ledger.db")
    capsys.readouterr()
    assert run(["report", "r", "--force"]) == 0
    assert capsys.readouterr().err == ""
    assert entry.read_text() == text
    assert page.read_text() == first
    # What is given wins, and stays.
    assert run(["report", "r", "--force", "--justification", "agreed again"]) == 0
    assert yaml.safe_load(entry.read_text()) == yaml.safe_load(
        text.replace('"agreed"', '"agreed again"')
    )
    assert run(["report", "r", "--out", "again.html"]) == 0
    assert (folder / "again.html").read_text() == page.read_text()
    assert "agreed again" in page.read_text()


def test_a_report_without_its_ledger_says_so_in_a_line(folder, capsys, monkeypatch):
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    assert run([*DECLARE, "--unit", "trajectory", "--ledger", "ledger.db"]) == 0
    assert run([*RELEASE, "--out", "r", "--ledger", "ledger.db"]) == 0
    capsys.readouterr()
    assert run(["report", "r", "--force"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "none is named; the page shows no budget: --ledger LEDGER names it" in said
    monkeypatch.setenv("PRIVALUE_LEDGER", "nowhere/ledger.db")
    assert run(["report", "r", "--force"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "PRIVALUE_LEDGER: " in said
    assert "the page shows no budget" in said


def test_an_entry_that_cannot_be_read_is_not_overwritten(folder, capsys):
    assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 0
    (folder / "r" / "registry.yaml").write_bytes(b"\xff")
    assert "would be lost" in failed(capsys, "report", "r", "--force")
    assert (folder / "r" / "registry.yaml").read_bytes() == b"\xff"


ENTRY = "deployment:\n  implementation:\n    justification: {}\n  administrative: 1\n"


@pytest.mark.parametrize(
    "written",
    [
        *("null", "~  # why", "plain words", "plain  # with a comment", "a#b", "null and void"),
        *("'it''s'", '"a \\"b\\" \\u00e4"  # said', '"two\n      lines"', "two\n      lines"),
        *("|-\n      a: b\n        c\n\n      - d", ">-\n      a\n      b", "|\n      kept"),
    ],
)
def test_the_justification_is_read_as_yaml_reads_it(tmp_path, written):
    file = tmp_path / "registry.yaml"
    file.write_text(ENTRY.format(written), encoding="utf-8")
    expected = yaml.safe_load(file.read_text())["deployment"]["implementation"]["justification"]
    found = answers_in(file)
    assert found.justification == (None if expected is None else expected.removesuffix("\n"))
    assert not found.unread


@pytest.mark.parametrize("written", ["[a, b]", "\n      - a", "{a: b}", "&x a", '"\\x41"'])
def test_a_justification_of_another_kind_is_kept_but_not_read(tmp_path, written):
    file = tmp_path / "registry.yaml"
    file.write_text(ENTRY.replace("{}", written))
    found = answers_in(file)
    assert found.justification is None
    assert found.unread


@given(st.text(max_size=40))
def test_a_justification_that_was_written_is_read_again(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "registry.yaml"
    entry = {"deployment": {"implementation": {"justification": text}}}
    file.write_text(to_yaml(entry, "two\nlines"), encoding="utf-8")
    found = answers_in(file)
    assert found.justification == text
    blank = {"deployment": {"implementation": {"justification": Unanswered("why")}}}
    assert to_yaml(found.into(blank), "two\nlines") == file.read_text(encoding="utf-8")


def test_a_refit_has_a_report_that_says_that_nothing_was_spent(folder, capsys):
    assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 0
    assert run(["refit", "r", "--aggregate", "2", "--out", "coarse"]) == 0
    assert run(["refit", "r", "--aggregate", "2", "--out", "coarse"]) == 2
    said = capsys.readouterr().err
    assert "a release is never overwritten; give another folder" in said
    assert "paid" not in said
    page = (folder / "coarse" / "report.html").read_text()
    assert "Nothing was spent on this" in page
    entry = yaml.safe_load((folder / "coarse" / "registry.yaml").read_text())["privalue"]
    assert entry["composition"]["accounting"] == "none: computed from another release"


def test_what_is_public_never_goes_beside_a_private_page(folder, capsys):
    (folder / "mine").mkdir()
    assert run([*INSPECT, "--page", "mine/look.html"]) == 0
    page = folder / "mine" / "look.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert PRIVATE_MARK in page.read_text()[:1000]
    assert "PRIVATE" in capsys.readouterr().err
    said = failed(capsys, *RELEASE, "--out", "mine", "--no-ledger")
    assert "look.html is a private page" in said
    assert [path.name for path in (folder / "mine").iterdir()] == ["look.html"]
    assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 0
    assert "private page" in failed(capsys, "report", "r", "--out", "mine/report.html")
    (folder / "shown").mkdir()
    assert run(["report", "r", "--out", "shown/page.html"]) == 0
    for other in (folder / "shown").glob("*.[cy]*"):
        other.unlink()
    (folder / "shown" / "page.html").rename(folder / "shown" / "renamed.html")
    assert "renamed.html is public" in failed(capsys, *INSPECT, "--page", "shown/look.html")
    # A page that was renamed is still told by what it holds; a page of somebody else is not one.
    page.rename(folder / "mine" / "report-2.html")
    assert "private page" in failed(capsys, *RELEASE, "--out", "mine", "--no-ledger")
    (folder / "theirs").mkdir()
    (folder / "theirs" / "index.html").write_text("<p>hello</p>")
    assert run([*RELEASE, "--out", "theirs", "--no-ledger"]) == 0


@pytest.mark.parametrize("name", PUBLIC_FILES)
def test_a_private_page_never_goes_beside_what_is_public(folder, capsys, name):
    (folder / "public").mkdir()
    (folder / "public" / name).write_text("")
    said = failed(capsys, *INSPECT, "--page", "public/private.html")
    assert f"{name} is public" in said
    assert "exists" in failed(capsys, *RELEASE, "--out", "public", "--no-ledger")
    with pytest.raises(pv.UsageError, match="is public"):
        write_private_page(
            pv.inspect(pv.Study.load("study.toml"), "data.parquet"), "public/private.html"
        )


def test_a_private_page_replaces_a_private_page_and_nothing_else(folder, capsys):
    assert run([*INSPECT, "--page", "p.html"]) == 0
    (folder / "p.html").chmod(0o644)
    assert run([*INSPECT, "--page", "p.html", "--json"]) == 0
    assert stat.S_IMODE((folder / "p.html").stat().st_mode) == 0o600
    (folder / "notes.html").write_text("mine")
    assert "is not a private page" in failed(capsys, *INSPECT, "--page", "notes.html")
    assert "must end in .html" in failed(capsys, *INSPECT, "--page", "notes.txt")
    assert "notes.html is not a directory" in failed(
        capsys, *INSPECT, "--page", "notes.html/p.html"
    )


def test_a_private_page_gets_its_folder_for_its_owner_alone(folder):
    assert run([*INSPECT, "--page", "new/folder/p.html"]) == 0
    assert stat.S_IMODE((folder / "new" / "folder").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "new" / "folder" / "p.html").stat().st_mode) == 0o600


def test_publish_refuses_another_study_and_a_taken_folder(folder):
    chosen = pv.Study.load("study.toml")
    release = pv.release(chosen, "data.parquet")
    other = chosen.model_copy(update={"report": {"level": 0.5}})
    with pytest.raises(pv.UsageError, match="not the one of this release"):
        pv.publish(release, "out", study=other)
    written = pv.publish(release, "out", study=chosen)
    assert pv.Release.load(written.release) == release
    with pytest.raises(pv.UsageError, match="never overwritten"):
        pv.publish(release, "out", study=chosen)


def test_what_was_paid_for_is_written_before_anything_can_fail(folder, monkeypatch):
    """A report that fails leaves the release itself, and the report can be made later."""
    from privalue.report import _publish as module

    def broken(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(module, "public_page", broken)
        assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 70
    assert pv.Release.load("r").private
    assert run(["report", "r", "--force"]) == 0
