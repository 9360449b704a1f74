"""Every output: no private number, no text that runs, no value lost."""

import csv
import io
import json
import math
import re
import stat
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import privalue as pv
from oracles.refusals import refused
from oracles.studies import in_sections, release_anyway
from privalue.cli import run, terminal
from privalue.cli.console import SafeConsole
from privalue.report import (
    describe,
    detection,
    format_interval,
    notebook_html,
    save_figure,
    write_private_page,
    write_report,
)
from privalue.report.folders import PRIVATE_MARK, PUBLIC_FILES
from report import samples

LABELS = ["ill", "better", "well", "gone"]


def make_study(mechanism="dp-ssp", labels=LABELS, **sections):
    return in_sections(
        **{
            "study": {"name": "recovery"},
            "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory"},
            "values": {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
            "states": {"labels": labels},
            "mechanism": {"name": mechanism},
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


def texts_of(release, folder, answers=None):
    """Every file that is made of a release, what a notebook shows, and the terminal."""
    description, screen = describe(release), io.StringIO()
    terminal.print_description(
        description,
        sections=("result", "study", "method"),
        with_verdict=True,
        console=SafeConsole(file=screen, width=100),
    )
    files = write_report(release, folder, answers=answers).values()
    return {
        **{file.name: file.read_text() for file in files},
        "notebook": notebook_html(description),
        "terminal": screen.getvalue(),
        "json": json.dumps(description.as_dict()),
    }


# Nothing private


@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw", "dp-lsl"])
def test_a_page_holds_nothing_private(mechanism, tmp_path):
    """Counts, psi, sigma and the estimate before noise: none of them, in any of the files."""
    study = make_study(mechanism)
    data = people(1361, 877, 439, 211)  # visits 1361, 2238, 2677; everybody comes to the end
    # Of this seed no noisy number, and no end of its interval, happens to round to a count.
    release = release_anyway(study, data, entropy=pv.SeededForExperimentsOnly(13))
    private = pv.inspect(study, data).private_columns()
    secrets = [count for count in private["counts"] if count != release.trajectories]
    assert len(secrets) == 3
    numbers = [*private["theta"], *private["values"]]
    if mechanism != "dp-ssp":  # there, sigma is public
        numbers += [private["sigma"], private["psi"]]
    for text in texts_of(release, tmp_path).values():
        assert leaks(text, secrets, numbers) == []
        planted = f"{text}<p>{secrets[1]:,} visits, {numbers[0]:.7g}</p>"
        assert leaks(planted, secrets, numbers)[:2] == [secrets[1], numbers[0]]


def leaks(text, counts, numbers):
    """The private numbers that a text shows, in any of the ways in which pages write them.

    Counts are looked for as whole numbers: four digits in a row may be anywhere in a hash.
    """
    words = set(re.split(r"[^0-9A-Za-z.,]+", text))
    texts = {word.strip(".,") for word in words}
    matches = [count for count in counts if {str(count), f"{count:,}"} & texts]
    return matches + [x for x in numbers if any(f"{x:.{n}g}" in text for n in (6, 7, 8))]


# Nothing that runs


class Parsed(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_hostile_texts_stay_texts_in_every_output(tmp_path):
    release, why = samples.hostile(), "<img src=x onerror=alert(1)>"
    texts = texts_of(release, tmp_path, {"justification": why})
    study = samples.make_study(states=samples.HOSTILE)
    diagnostics = pv.inspect(study, samples.stays(300, labels=samples.HOSTILE))
    texts["private"] = write_private_page(diagnostics, tmp_path / "curator" / "p.html").read_text()
    texts["check"] = pv.check(study)._repr_html_()
    visits = dict.fromkeys(samples.HOSTILE, 0.5)
    texts["plan"] = pv.plan(study, trajectories=3000, visits=visits)._repr_html_()
    files = pv.improve(samples.hostile_actions()).save(tmp_path / "policy.csv")
    texts |= {file.name: file.read_text() for file in files}
    own_ids = ("notebook", "check", "plan")  # in a notebook, beside the ids of others
    for name in ("report.html", "private", "policy.html", *own_ids):
        parsed = Parsed(texts[name])
        assert not parsed.tags & {"script", "img", "iframe", "link", "object", "form"}
        assert not [key for key, _ in parsed.attributes if key.startswith("on")]
        links = {value for key, value in parsed.attributes if key in {"href", "src"}}
        assert links <= (set() if name in own_ids else {"#content", *PUBLIC_FILES})
        assert name not in own_ids or not [key for key, _ in parsed.attributes if key == "id"]
        for label in samples.HOSTILE[:5]:
            assert label in parsed.text
        assert not set(texts[name]) & {"\x1b", "\x07"}
    assert "script-src 'none'" in texts["report.html"]
    assert why in Parsed(texts["report.html"]).text
    assert not set(texts["terminal"]) & {"\x1b", "\x07", "\u202e"}
    for name in ("values.csv", "differences.csv", "policy.csv"):
        cells = [cell for row in csv.reader(io.StringIO(texts[name])) for cell in row]
        assert not [cell for cell in cells if cell[:1] in {"=", "+", "@"}]
    entry = yaml.safe_load(texts["registry.yaml"])
    assert entry["deployment"]["implementation"]["justification"] == why
    picture = ET.parse(save_figure(describe(release), tmp_path / "values.svg"))
    assert not [part for part in picture.iter() if part.tag.endswith("script")]


def test_no_label_becomes_a_formula_with_any_separator(tmp_path):
    labels = ["a;=1+17", "a\t=1", "a\n=1", 'a";=1', "a =1", "a|=1", ";=1", "\ufeff=1", "plain"]
    episodes = [[(label, 0.5) for label in labels]] * 300
    release = samples.release_seeded(make_study(labels=labels), episodes)
    text = texts_of(release, tmp_path)["values.csv"]
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0].removeprefix("'") for row in rows[1:]] == labels
    for separator in ";\t| ,":
        for row in list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))[1:]:
            for cell in row:
                assert cell.lstrip("\ufeff")[:1] not in set("=+@"), (separator, row)


# Nothing lost


@pytest.mark.parametrize("kind", samples.STUDIES)
def test_files_have_every_digit_and_plots_every_value(kind, tmp_path):
    release = samples.release(kind)
    for table in describe(release).tables:
        assert table.axis.low <= table.value.min() <= table.value.max() <= table.axis.high
    rows = list(csv.DictReader(io.StringIO(texts_of(release, tmp_path)["values.csv"])))
    values = [float(row["value"]) for row in rows]
    assert values[: len(release)] == release.value.tolist()
    if release.differences is not None:
        rows = list(csv.DictReader(io.StringIO((tmp_path / "differences.csv").read_text())))
        assert [float(row["value"]) for row in rows] == release.differences.value.tolist()


def test_a_plot_marks_the_intervals_that_go_on_beyond_its_axis():
    wide = make_study(labels=["a", "b"], values={"discount": 1.0, "returns": (0.0, 30.0)})
    stays = [[("a", 5.0)]] * 4000 + [[("b", 5.0)]] * 20
    release = release_anyway(wide, stays, entropy=pv.SeededForExperimentsOnly(1))
    description = describe(release)
    assert [row.beyond for row in description.tables[-1].rows()] == [(), ("low", "high")]
    assert notebook_html(description).count('class="beyond') == 2
    low, high = release.plot().get_xlim()  # a figure shows whole intervals
    assert low < release.total_low.min() < release.total_high.max() < high


@given(
    value=st.floats(-1e6, 1e6),
    below=st.floats(0, 1e6),
    above=st.floats(0, 1e6),
)
def test_an_interval_is_written_around_its_value(value, below, above):
    """Digits follow the width: what is written is off by a twentieth of it at most."""
    low, high = value - below, value + above
    formatted = format_interval(value, low, high)
    texts = [formatted.value, *formatted.interval.split(" to ")]
    numbers = [float(text.replace(",", "")) for text in texts]
    off = 0.051 * (high - low) + 1e-6 * max(abs(low), abs(high))
    for number, text in zip((value, low, high), numbers, strict=True):
        assert abs(number - text) <= off


# What is promised


@given(epsilon=st.floats(0.0, 6.0), delta=st.floats(0.0, 0.5), alarms=st.floats(0.0, 1.0))
def test_the_best_test_of_the_worst_mechanism_is_as_good_as_the_table_says(epsilon, delta, alarms):
    """[Kairouz, Oh, Viswanath 2015]: four outcomes dominate every (epsilon, delta) mechanism."""
    e = math.exp(epsilon)
    with_one = [delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0.0]
    with_other = with_one[::-1]
    best = linprog([-p for p in with_one], A_ub=[with_other], b_ub=[alarms], bounds=(0, 1))
    assert detection(epsilon, delta, alarms) == pytest.approx(-best.fun, abs=1e-7)


def test_a_seeded_release_says_everywhere_that_it_is_not_private(tmp_path):
    release = samples.release("states")
    texts = texts_of(release, tmp_path)
    for name, text in texts.items():
        if name != "json":
            assert "NOT PRIVATE" in text, name
    assert yaml.safe_load(texts["registry.yaml"])["status"].startswith("NOT PRIVATE")
    assert json.loads(texts["json"])["release.private"] is False


def test_a_private_release_of_two_arms_says_so_on_a_short_page(tmp_path):
    texts = texts_of(pv.release(samples.arms_study(), samples.rows_of("arms")), tmp_path)
    assert not [name for name, text in texts.items() if "NOT PRIVATE" in text]
    assert "(1, 1e-06)-differentially private" in texts["notebook"]
    assert len(Parsed(texts["report.html"]).text.split()) <= 2500  # folded parts and style included


def test_every_output_with_values_says_how_returns_count(tmp_path):
    release, clause = samples.release("restricted"), "each counted up to 1 days"
    texts = texts_of(release, tmp_path)
    tables = {name: texts.pop(name).partition("\n")[0] for name in [*texts] if ".csv" in name}
    assert all("restriction_low,restriction_high" in heading for heading in tables.values())
    assert clause in " ".join(release.plot().get_title("left").split())
    assert {name for name, text in texts.items() if clause not in text} == set()


# The verdict


def test_a_release_that_was_accepted_as_useless_is_not_usable():
    release = release_anyway(make_study(), people(3, 3, 3, 3), accept_large_delta=True)
    assert describe(release).verdict == "unusable"
    assert describe(release).notices[0].code == "useless"


# Places


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


def code_of(capsys, *arguments):
    """The code of an error of usage, which is one JSON object on one line."""
    capsys.readouterr()
    assert run([*arguments, "--log-format", "json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    *_, last = map(json.loads, printed.err.splitlines())
    return last["code"]


RELEASE = ("release", "study.toml", "--data", "data.parquet")
INSPECT = ("inspect", "study.toml", "--data", "data.parquet")
BUDGET = ("--epsilon", "3", "--delta", "1e-4", "--unit", "trajectory")
DECLARE = ("ledger", "declare", "trial", *BUDGET)


def test_a_release_leaves_files_that_agree_and_can_be_made_again(folder, capsys):
    assert run([*DECLARE]) == 0
    (folder / "registry.toml").write_text('data_curators = "St. Mary\'s"\n')
    assert run([*RELEASE, "--out", "r", "--ledger", "ledger.db", "--justification", "agreed"]) == 0
    names = sorted(path.name for path in (folder / "r").iterdir())
    assert names == sorted({*PUBLIC_FILES} - {"differences.csv"})
    page, entry = (folder / "r" / name for name in ("report.html", "registry.yaml"))
    assert pv.Release.load("r").ledger_head in page.read_text()
    assert "agreed" in page.read_text()
    assert yaml.safe_load(entry.read_text())["deployment"]["basic"]["data_curators"] == "St. Mary's"
    for file in (folder / "r").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    before = page.read_text(), entry.read_text()
    assert code_of(capsys, "report", "r") == "exists"
    again = ["report", "r", "--ledger", "ledger.db", "--study", "study.toml", "--force"]
    assert run([*again, "--justification", "agreed"]) == 0
    assert (page.read_text(), entry.read_text()) == before
    (folder / "other.toml").write_text((folder / "study.toml").read_text().replace("0.99", "0.98"))
    assert code_of(capsys, "report", "r", "--force", "--study", "other.toml") == "other-study"
    (folder / "registry.toml").write_text("data_curators = 3\n")
    assert code_of(capsys, *again) == "answers-invalid"


def test_public_files_are_not_written_beside_a_private_page(folder, capsys):
    assert run([*INSPECT, "--page", "mine/look.html"]) == 0
    page = folder / "mine" / "look.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert PRIVATE_MARK in page.read_text()[:1000]
    assert run([*RELEASE, "--out", "mine", "--no-ledger"]) == 2
    assert [path.name for path in (folder / "mine").iterdir()] == ["look.html"]
    assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 0
    (folder / "shown").mkdir()
    (folder / "r" / "report.html").rename(folder / "shown" / "renamed.html")
    assert code_of(capsys, *INSPECT, "--page", "shown/look.html") == "beside-public"
    page.rename(folder / "mine" / "report-2.html")  # told by what it holds
    assert run([*RELEASE, "--out", "mine", "--no-ledger"]) == 2
    (folder / "theirs").mkdir()
    (folder / "theirs" / "index.html").write_text("<p>hello</p>")
    assert run([*RELEASE, "--out", "theirs", "--no-ledger"]) == 0


@pytest.mark.parametrize("name", PUBLIC_FILES)
def test_a_private_page_is_not_written_beside_public_files(folder, capsys, name):
    (folder / "public").mkdir()
    (folder / "public" / name).write_text("")
    assert code_of(capsys, *INSPECT, "--page", "public/private.html") == "beside-public"
    assert run([*RELEASE, "--out", "public", "--no-ledger"]) == 2
    diagnostics = pv.inspect(pv.Study.load("study.toml"), "data.parquet")
    with refused("beside-public"):
        write_private_page(diagnostics, "public/private.html")


def test_a_private_page_replaces_a_private_page_and_nothing_else(folder, capsys):
    assert run([*INSPECT, "--page", "p.html"]) == 0
    (folder / "p.html").chmod(0o644)
    assert run([*INSPECT, "--page", "p.html", "--json"]) == 0
    assert stat.S_IMODE((folder / "p.html").stat().st_mode) == 0o600
    (folder / "notes.html").write_text("mine")
    assert code_of(capsys, *INSPECT, "--page", "notes.html") == "exists"
    assert code_of(capsys, *INSPECT, "--page", "notes.txt") == "private-place"
    assert code_of(capsys, *INSPECT, "--page", "notes.html/p.html") == "private-place"


def test_a_charged_release_is_written_before_anything_can_fail(folder, monkeypatch):
    """A report that fails leaves the release itself, and the report can be made later."""

    def broken(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("privalue.report.publishing.render", broken)
        assert run([*RELEASE, "--out", "r", "--no-ledger"]) == 70
    assert pv.Release.load("r").private
    assert run(["report", "r", "--force"]) == 0
