"""Seeded studies give what they gave before: releases, the curator's numbers, both pages.

``freeze.py`` keeps and compares, in processes of its own; ``compare.py`` says how closely.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from frozen.compare import MOST_ROUNDED, PSI, differences
from frozen.freeze import PLAIN_KERNELS
from frozen.record import KEPT, PAGES, Record, page_words, recorded, release_text
from frozen.studies import STUDIES
from privalue.cli import run

TESTS = Path(__file__).parents[1]
LOCAL = [name for name, study in STUDIES.items() if study.engine == "local"]
SPARK = [name for name, study in STUDIES.items() if study.engine == "spark"]
SSP, SMOOTH = "csv-ordered", "lsw-exact"


def compared(names):
    """What a process of its own finds."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "frozen.freeze", "--compare", *names],
        env={**os.environ, **PLAIN_KERNELS, "PYTHONPATH": path},
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "names",
    [LOCAL[::2], LOCAL[1::2]],  # two processes, about as long
    ids=lambda names: f"{names[0]}, {names[1]}, ...",
)
def test_studies_give_what_they_gave(names):
    done = compared(names)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_studies_give_what_they_gave_on_spark():
    """One process, and one session in it, for all of them."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime, and there is none")
    done = compared(SPARK)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_what_is_kept_is_what_there_is():
    endings = ("private.json", "release.json", "txt")
    expected = {f"{name}.{ending}" for name in STUDIES for ending in endings}
    assert {file.name for file in KEPT.iterdir()} == expected
    assert sum(file.stat().st_size for file in KEPT.iterdir()) < 1_500_000


def test_days_versions_and_terms_are_left_out_and_nothing_else():
    kept = Record.load(SSP).release
    whole = json.loads(kept)
    added = {"created": "2031-01-02", "software": {"name": "x"}, "schema_version": 9}
    terms = {"epsilon": 1.0, "bounds": [0.0, 1.0], "created": {"discount": 0.9}}
    written = json.dumps({**added, **whole, "terms": terms}, indent=2) + "\n"
    assert json.loads(release_text(written)) == whole
    for other in ({**whole, "study": {**whole["study"], "terms": 1}}, {**whole, "term": 1}):
        assert json.loads(release_text(json.dumps(other, indent=2))) == other
    page = "<p>On 2031-01-02</p><style>p {}</style><b>of</b> 2031-01-03"
    assert page_words(page, day="2031-01-02") == ["On", "DAY", "of", "2031-01-03"]


def test_the_command_line_gives_the_same(tmp_path, monkeypatch):
    """The same release, and the same curator's page, from files alone.

    It is compared with what the library gives in this very process, whatever its kernels.
    """
    monkeypatch.chdir(tmp_path)
    frozen = STUDIES[SSP]
    expected = recorded(frozen)
    study, data = str(frozen.study_file(tmp_path)), str(frozen.data(tmp_path))
    release = ["release", study, "--data", data, "--out", "out", "--no-ledger", "--anyway"]
    seeded = ["--accept-large-delta", "--seed-not-private", str(frozen.seed)]
    assert run([*release, *seeded]) == 0
    assert run(["inspect", study, "--data", data, "--page", "mine/page.html"]) == 0
    written = (tmp_path / "out" / "release.json").read_text()
    assert release_text(written) == expected.release
    page = (tmp_path / "mine" / "page.html").read_text()
    day = json.loads(written)["created"]
    assert page_words(page, day=day) == expected.pages[PAGES[1]]


# The comparison notices


def planted(name, **changes):
    """What the comparison says of a record that was changed."""
    kept = Record.load(name)
    return differences(kept, replace(kept, **changes), smooth=STUDIES[name].smooth)


def test_nothing_is_found_where_nothing_changed():
    assert all(not planted(name) for name in STUDIES)


@pytest.mark.parametrize("name", [SSP, SMOOTH])
@pytest.mark.parametrize("key", ["counts", "return_steps", "trajectories", "rows_missing"])
def test_a_count_that_is_off_by_one_is_found(name, key):
    private = Record.load(name).private
    value = private[key]
    other = value + 1 if isinstance(value, int) else [value[0] + 1, *value[1:]]
    (found,) = planted(name, private={**private, key: other})
    assert found.startswith(f"private {key}")


@pytest.mark.parametrize("key", ["theta", "values", "statistics", "noise"])
def test_the_twelfth_digit_of_a_released_number_is_found(key):
    kept = Record.load(SSP).release
    part = json.dumps(json.loads(kept)[key])
    number = re.search(r"-?\d+\.\d{4,}", part)[0]
    assert kept.count(number) >= 1
    other = repr(float(number) * (1 + 1e-12))
    found = planted(SSP, release=kept.replace(number, other))
    assert any(line.startswith(f"release {key}") for line in found)


@pytest.mark.parametrize("name", [SSP, SMOOTH])
def test_another_way_to_write_the_same_release_is_found(name):
    kept = Record.load(name).release
    for other in (kept.replace(": ", ":"), kept + " "):
        assert planted(name, release=other) == [
            "release: the same numbers and keys, written in another way"
        ]
    whole = json.loads(kept)
    turned = json.dumps(dict(reversed(whole.items())))
    assert any("keys" in line for line in planted(name, release=turned))
    assert any("keys" in line for line in planted(name, release=json.dumps({**whole, "new": 1})))


@pytest.mark.parametrize("name", [SSP, SMOOTH])
@pytest.mark.parametrize("page", PAGES)
def test_a_word_and_a_whole_number_of_a_page_are_found(name, page):
    pages = Record.load(name).pages
    words = pages[page]
    plain = next(at for at, word in enumerate(words) if word.isalpha())
    number = max(at for at, word in enumerate(words) if word.isdigit())
    for at, other in ((plain, words[plain] + "s"), (number, str(int(words[number]) + 1))):
        changed = [*words[:at], other, *words[at + 1 :]]
        (found,) = planted(name, pages={**pages, page: changed})
        assert found.startswith(page)
        assert repr(other) in found
    (found,) = planted(name, pages={**pages, page: words[:-1]})
    assert found.startswith(page)


def moved(record, by):
    """The curator's numbers with a psi that moved by a relative ``by``, and what follows it."""
    scale = 1 + by
    return {
        **record.private,
        "psi": record.private["psi"] * scale,
        "sigma": record.private["sigma"] * scale**0.5,
        "noise_by_state": [noise * scale**0.5 for noise in record.private["noise_by_state"]],
    }


def test_a_psi_within_its_tolerance_may_move_what_is_drawn_by_a_step_of_the_grid():
    kept = Record.load(SMOOTH)
    whole = json.loads(kept.release)
    near, far = moved(kept, 0.9 * PSI), moved(kept, 1.1 * PSI)
    assert planted(SMOOTH, private=near) == []
    assert [line.split(":")[0] for line in planted(SMOOTH, private=far)] == ["private psi"]

    def stepped(steps):
        theta = [whole["theta"][0] + steps * whole["noise"]["grid"], *whole["theta"][1:]]
        return json.dumps({**whole, "theta": theta}, indent=2)

    assert planted(SMOOTH, private=near, release=stepped(1)) == []
    assert planted(SMOOTH, private=near, release=stepped(1.5)) != []
    assert planted(SMOOTH, release=stepped(1)) != [], "psi is the same: nothing may move"
    other = {**whole, "noise": {**whole["noise"], "alpha": whole["noise"]["alpha"] * (1 + 1e-12)}}
    assert planted(SMOOTH, private=near, release=json.dumps(other)) != []
    # of DP-SSP, nothing may move at all
    assert planted(SSP, private=moved(Record.load(SSP), 1e-15)) != []


def test_numbers_of_a_page_are_the_same_to_what_they_show():
    pages = Record.load(SMOOTH).pages
    words = pages[PAGES[1]]
    sigma = words.index("sigma") + 1
    shown = float(words[sigma])

    def with_numbers(*changes):
        changed = list(words)
        for at, text in changes:
            changed[at] = text
        return planted(SMOOTH, pages={**pages, PAGES[1]: changed})

    assert with_numbers((sigma, f"{shown * (1 + 2e-9):.10g}")) == []
    assert with_numbers((sigma, f"{shown * (1 + 2e-7):.10g}")) != []
    four = [at for at, word in enumerate(words) if re.fullmatch(r"0\.\d{4}", word)]
    last = [(at, f"{float(words[at]) + 1e-4:.4f}") for at in four]
    assert with_numbers(*last[:MOST_ROUNDED]) == []
    assert with_numbers(*last[: MOST_ROUNDED + 1]) != []
    assert with_numbers((four[0], f"{float(words[four[0]]) + 3e-4:.4f}")) != []


def test_a_change_on_the_way_is_found():
    """Not only in what is kept: a bound of rewards that is off by 1e-9 moves sums of returns."""
    frozen = STUDIES[SSP]
    values = {**frozen.sections["values"], "rewards": (0.0, 1.0 + 1e-9)}
    other = replace(frozen, sections={**frozen.sections, "values": values})
    found = differences(Record.load(SSP), recorded(other), smooth=False)
    assert any(line.startswith("private return_steps") for line in found)
