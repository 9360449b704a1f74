"""Both pages in real Chromium: readable, usable, named; nothing leaves. Planted mistakes too."""

import pytest
from pypdf import PdfReader

import privalue as pv
from oracles import pages
from oracles.studies import release_anyway
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
    return pv.Study(
        study=pv.About(name=name, dataset="trial", **more),
        privacy=pv.Privacy(epsilon=1.0, delta=1e-5, unit="trajectory"),
        values=pv.Values(
            discount=0.9, rewards=(0.0, 1.0), returns=(0.0, 1.0), start={labels[0]: 1.0}
        ),
        states=pv.States(labels=labels),
        mechanism=pv.Mechanism(name=mechanism),
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
        account=ledger.show("trial"),
        justification="<script>alert('why')</script> because",
    ).page


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


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1200, "light")])
def test_the_page_of_many_states_is_as_it_should_be(browser, large, width, scheme):
    assert pages.faults(browser, large, width=width, scheme=scheme) == []


@pytest.mark.parametrize(("width", "scheme"), EVERYWHERE)
def test_the_private_page_is_as_it_should_be_and_says_so(browser, private, width, scheme):
    assert pages.faults(browser, private, width=width, scheme=scheme) == []
    assert pages.hidden_mark(browser, private, width=width, scheme=scheme) == []


def test_both_pages_print(browser, public, private, folder):
    report = PdfReader(pages.printed(browser, public, folder / "public.pdf"))
    text = "".join(page.extract_text() for page in report.pages)
    assert len(report.pages) > 2
    assert "Reviewed by" in text
    assert "What is promised" in text
    assert "x" * 20 in text  # a label of 300 letters is broken, not cut off
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
    "an unnamed chart": (
        ' role="img" aria-label="The released',
        ' role="img" data-x="The',
        "image has no name",
    ),
    "low contrast": ("--soft: #4a5866", "--soft: #a9b4bf", "contrast 2."),
    "pale marks": ("--interval: #5b98c0", "--interval: #d5e6f1", "drawn as interval"),
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
    found = pages.faults(browser, file, width=1200, scheme="light")
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
    found = pages.hidden_mark(browser, file, width=400, scheme="light")
    assert "PRIVATE is not in sight at 50% of the page" in found
