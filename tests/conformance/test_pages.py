"""Both pages in real Chromium: readable, usable, named; nothing leaves. Planted mistakes too."""

import re

import pytest
from pypdf import PdfReader

import privalue as pv
from oracles import pages
from oracles.studies import in_sections, release_anyway
from privalue.report._private_page import write_private_page

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "مرحبا بالعالم",
    "\u202eback to front",
    "👩‍⚕️ ward",
    "x" * 300,
    "</style><b>&amp;",
]
EVERYWHERE = [(width, scheme) for width in pages.WIDTHS for scheme in pages.SCHEMES]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = pages.chromium()
    if path is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=pages.FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def study(labels, mechanism="dp-ssp", name="recovery", **more):
    return in_sections(
        study={"name": name, "dataset": "trial", **more},
        privacy={"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory"},
        values={
            "discount": 0.9,
            "rewards": (0.0, 1.0),
            "returns": (0.0, 1.0),
            "start": {labels[0]: 1.0},
        },
        states={"labels": labels},
        mechanism={"name": mechanism},
    )


def people(labels, count=400):
    """Everybody visits all states but the last two, which nobody visits."""
    return [[(label, 0.0) for label in labels[:-3]] + [(labels[-3], 1.0)]] * count


@pytest.fixture(scope="module")
def public(folder):
    """A page with everything on it: intervals, flags, hostile names, a ledger."""
    chosen = study(HOSTILE, name="</title><script>alert('name')</script> \u202eRTL 👩‍⚕️ ω" * 2)
    ledger = pv.open_ledger(folder / "ledger.db")
    ledger.declare("trial", epsilon=3.0, delta=1e-4, unit="trajectory")
    release = pv.release(chosen, people(HOSTILE), ledger=ledger)
    return pv.publish(
        release,
        folder / "public",
        study=chosen,
        account=ledger.account("trial"),
        justification="<script>alert('why')</script> because",
    ).page


@pytest.fixture(scope="module")
def few(folder):
    """Three states, of which the last is the best."""
    chosen = study(["ill", "better", "well"])
    data = [[("ill", 0.0), ("better", 0.0), ("well", 0.7)]] * 4000
    return pv.publish(pv.release(chosen, data), folder / "few", study=chosen).page


@pytest.fixture(scope="module")
def wards(folder):
    """Twelve long names, of which the last two are flagged."""
    names = [f"Acute respiratory failure, ward {x}, from emergency" for x in "ABCDEFGHIJKL"]
    chosen = study(names, name="Respiratory wards of the northern region")
    return pv.publish(release_anyway(chosen, people(names, 4000)), folder / "wards").page


@pytest.fixture(scope="module")
def large(folder):
    """More states than are drawn or listed, without intervals."""
    labels = [f"state {at}" for at in range(3000)]
    chosen = study(labels, "dp-lsw")
    release = release_anyway(chosen, [[(label, 0.5) for label in labels]] * 20)
    return pv.publish(release, folder / "large", study=chosen).page


@pytest.fixture(scope="module")
def private(folder):
    (folder / "curator").mkdir()
    diagnostics = pv.inspect(study(HOSTILE), people(HOSTILE))
    return write_private_page(diagnostics, folder / "curator" / "private.html")


@pytest.mark.parametrize(("width", "scheme"), EVERYWHERE)
def test_the_public_page_is_as_it_should_be(browser, public, width, scheme):
    assert pages.faults(browser, public, width=width, scheme=scheme) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_of_many_states_is_as_it_should_be(browser, large, width, scheme):
    assert pages.faults(browser, large, width=width, scheme=scheme) == []


def test_a_page_with_arms_is_as_it_should_be(browser, folder):
    names, arms = ["ill", "better", "well"], ["control", "treated"]
    chosen = study(names).replace(arms=arms)
    data = [[(name, 0.2, arms[at % 2]) for name in names] for at in range(4000)]
    page = pv.publish(release_anyway(chosen, data), folder / "arms").page
    assert pages.faults(browser, page, width=390, scheme="dark") == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_private_page_is_as_it_should_be_and_says_so(browser, private, width, scheme):
    assert pages.faults(browser, private, width=width, scheme=scheme) == []
    assert pages.hidden_mark(browser, private, width=width, scheme=scheme) == []


# What is asked of the first screen, of tables and of plots


@pytest.mark.parametrize("width", pages.WIDTHS)
def test_the_answer_and_the_plot_are_on_the_first_screen(browser, wards, width):
    with pages.Opened(browser, wards, width, "light") as opened:
        verdict, plot = (
            opened.page.locator(what).first.bounding_box()
            for what in (".verdict", ".pv-forest svg:visible")
        )
        assert verdict["y"] + verdict["height"] < 400
        assert plot["y"] < 800  # a hundred pixels of it at least
        assert "careful with" in opened.page.locator(".verdict").inner_text()


def test_the_whole_plot_of_a_few_states_is_on_the_first_screen(browser, few):
    with pages.Opened(browser, few, 1280, "light") as opened:
        plot = opened.page.locator(".pv-forest svg:visible").first.bounding_box()
        assert plot["y"] + plot["height"] < 900


@pytest.mark.parametrize("width", pages.WIDTHS)
def test_the_flag_column_stays_in_sight(browser, wards, width):
    with pages.Opened(browser, wards, width, "light") as opened:
        box = opened.page.locator("#all-states")
        box.scroll_into_view_if_needed()
        for scrolled in (0, 10_000):
            box.evaluate("(element, x) => { element.scrollLeft = x; }", scrolled)
            frame = box.bounding_box()
            for cell in ("thead th:last-child", "tbody tr:first-child td:last-child"):
                there = box.locator(cell).bounding_box()
                assert frame["x"] <= there["x"]
                assert there["x"] + there["width"] <= min(frame["x"] + frame["width"], width) + 1
        assert box.locator("thead th:last-child").inner_text() == "Flag"
        assert "too few visits" in box.locator("tbody tr:last-child td:last-child").inner_text()


def test_a_row_of_the_plot_shows_exact_numbers_on_hover_and_focus(browser, public):
    with pages.Opened(browser, public, 1280, "light") as opened:
        rows = opened.page.locator(".pv-wide .pv-row")
        assert rows.nth(1).locator(".pv-tip").evaluate("e => getComputedStyle(e).visibility") == (
            "hidden"
        )
        rows.nth(1).locator(".pv-hit").hover()
        tip = rows.nth(1).locator(".pv-tip")
        assert tip.evaluate("e => getComputedStyle(e).visibility") == "visible"
        assert "total interval" in tip.text_content()
        rows.nth(0).focus()
        opened.page.keyboard.press("ArrowDown")
        opened.page.keyboard.press("ArrowDown")
        third = rows.nth(2).locator(".pv-tip")
        assert third.evaluate("e => getComputedStyle(e).visibility") == "visible"
        assert rows.nth(2).evaluate("e => e === document.activeElement")


def test_rows_are_sorted_by_value_and_back(browser, few):
    with pages.Opened(browser, few, 1280, "light") as opened:
        names = ".pv-wide .pv-row .pv-name"
        order = opened.page.locator("[data-order] select")
        before = opened.page.locator(names).all_text_contents()
        order.select_option("value")
        tops = [box.bounding_box()["y"] for box in opened.page.locator(names).all()]
        assert tops == sorted(tops)
        assert opened.page.locator(names).all_text_contents() == ["well", "better", "ill"]
        order.select_option("study")
        assert opened.page.locator(names).all_text_contents() == before == ["ill", "better", "well"]


def test_a_table_of_many_states_can_be_searched(browser, large):
    with pages.Opened(browser, large, 1280, "light") as opened:
        page = opened.page
        page.get_by_label("Search").fill("state 7")
        shown = page.locator("#all-states tbody tr:visible th").all_inner_texts()
        assert shown == [f"state {at}" for at in range(100) if "7" in str(at)]
        assert page.get_by_role("status").inner_text() == "19 of 100 rows"


def headings_at_the_end(sheets):
    """Headings below which a sheet has nothing but its foot."""
    headings = {"The values", "All states", "How precise it is", "As achieved", "Sign-off"}
    headings |= {"What is promised", "How it was made", "What it cost", "Why these parameters"}
    headings |= {"In symbols", "The dataset's budget when this page was written"}
    last = [[line.strip() for line in text.splitlines() if line.strip()] for text in sheets]
    return [lines[-1] for lines in last if lines and lines[-1] in headings]


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_every_sheet_has_its_number_and_the_hash(browser, public, folder, paper):
    report = PdfReader(pages.printed(browser, public, folder / f"{paper}.pdf", paper))
    texts = [page.extract_text() for page in report.pages]
    sha256 = pv.Release.load(public.parent).sha256
    assert len(texts) > 2
    feet = [re.search(rf"release.json, SHA-256 {sha256}", text) for text in texts]
    assert all(feet)
    for at, text in enumerate(texts, start=1):
        assert f"{at} of {len(texts)}" in text
    content = [
        re.sub(rf"(\d+ of {len(texts)}|release.json, SHA-256 {sha256})\s*", "", text)
        for text in texts
    ]
    assert headings_at_the_end(content) == []
    whole = "".join(texts)
    assert "What is promised" in whole
    assert "Suppose an attacker knows every record" in whole  # what is folded is printed, too
    assert "In symbols" in whole
    assert "x" * 20 in whole  # a label of 300 letters is broken, not cut off


def test_a_stranded_heading_is_found():
    assert headings_at_the_end(["a\nAs achieved\n", "b"]) == ["As achieved"]


def test_there_is_one_line_to_sign_on(browser, public):
    with pages.Opened(browser, public, 680, "light") as opened:
        opened.page.emulate_media(media="print")
        tops = {field.bounding_box()["y"] for field in opened.page.locator(".sign div").all()}
        assert len(tops) == 1


def test_the_private_page_prints_its_mark_on_every_sheet(browser, private, folder):
    assert unmarked(browser, private, folder) == []


def unmarked(browser, file, folder):
    """The sheets that do not say PRIVATE by themselves, whatever else is on them."""
    kept = PdfReader(pages.printed(browser, file, folder / "private.pdf"))
    assert len(kept.pages) > 2
    texts = [page.extract_text() for page in kept.pages]
    banner = "PRIVATE For the curator only. None of this may be published."
    margin = "PRIVATE: for the curator only"
    return [at for at, text in enumerate(texts) if banner not in text or margin not in text]


def test_a_sheet_without_the_mark_is_found(browser, private, folder):
    file = folder / "first-sheet-only.html"
    file.write_text(private.read_text().replace("position: fixed", "position: static", 1))
    assert 1 in unmarked(browser, file, folder)


# Mistakes that are planted, and must be found

POLICY = 'http-equiv="Content-Security-Policy"'
MISTAKES = {
    "an external image": (
        "<main",
        '<img alt="logo" src="https://example.invalid/logo.png"><main',
        "request: https://example.invalid/logo.png",
    ),
    "a script that fails": ("<main", "<script>undefined.broken</script><main", "undefined"),
    "an unnamed row": (
        ' role="img" aria-label="',
        ' role="img" data-x="',
        "image has no name",
    ),
    "an unnamed choice": ("<label>Order <select>", "<select>", "select-name"),
    "low contrast": ("--soft: #4a5866", "--soft: #a9b4bf", "contrast 2."),
    "pale marks": ("--mark: #084f78", "--mark: #d5e6f1", "drawn as pv-value"),
    "too wide": ("<main", '<div style="width: 2000px">wide</div><main', "scrolls sideways"),
    "small print": ("<main", '<p style="font-size: 8px">small</p><main', "8.0 pixels"),
    "a jump of headings": ("<h2", "<h4>Deep</h4><h2", "h4 after h1"),
    "a box that no key reaches": (' tabindex="0" aria-label="Released', ' aria-label="R', "no key"),
    "no focus": ("outline: 3px solid", "outline: 0 none", "focus does not show"),
    "no main": ("<main", "<div", "0 of main"),
    "a second id": ("<main", '<div id="values"></div><main', "two of #values"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(browser, public, folder, mistake):
    there, planted, expected = MISTAKES[mistake]
    text = public.read_text()
    assert there in text
    text = text.replace(there, planted, 1)
    assert POLICY in text  # which would keep a mistake from doing harm
    text = text.replace(POLICY, 'name="no-policy"')
    file = folder / "planted.html"
    file.write_text(text)
    axe = mistake == "an unnamed choice"
    width = 700 if mistake == "a box that no key reaches" else 800  # where the table scrolls
    found = pages.faults(browser, file, width=width, scheme="light", axe=axe)
    assert any(expected in fault for fault in found), found


def test_the_policy_of_the_page_itself_refuses_what_a_mistake_would_load(browser, public, folder):
    file = folder / "refused.html"
    planted = '<img alt="x" src="https://example.invalid/x.png"><script>alert(1)</script><main'
    file.write_text(public.read_text().replace("<main", planted, 1))
    with pages.Opened(browser, file, 1200, "light") as opened:
        assert opened.asked == []
        assert any("Content Security Policy" in line for line in opened.heard)
        assert not any("dialog" in line for line in opened.heard)


def test_a_banner_that_scrolls_away_is_found(browser, private, folder):
    file = folder / "moving.html"
    file.write_text(private.read_text().replace("position: sticky; top: 0; z-index: 5", "", 1))
    found = pages.hidden_mark(browser, file, width=390, scheme="light")
    assert "PRIVATE is not in sight at 50% of the page" in found
