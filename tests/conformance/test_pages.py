"""The pages in Chromium: readable, accessible, without requests; planted mistakes are found."""

import pytest
from pypdf import PdfReader

import privalue as pv
from oracles import pages
from privalue.report import write_private_page
from report import samples

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


@pytest.fixture(scope="module")
def hostile(folder):
    """A page with everything on it: intervals, arms, flags, hostile names."""
    answers = {"justification": "<script>alert('why')</script> because"}
    return pv.publish(samples.hostile(), folder / "hostile", answers=answers).page


@pytest.fixture(scope="module")
def arms(folder):
    return pv.publish(samples.release("arms"), folder / "arms").page


@pytest.fixture(scope="module")
def wards(folder):
    """Forty states with long names, on a ledger, of which the last two are flagged."""
    names = [f"Acute respiratory failure, ward {at}" for at in range(40)]
    study = samples.make_study(states=names, dataset="wards", start={names[0]: 1.0})
    rows = [[(name, 0.02) for name in names[:-2]]] * 4000
    ledger = pv.open_ledger(folder / "ledger.db")
    ledger.declare("wards", epsilon=3.0, delta=1e-4, unit="trajectory")
    release = pv.release(study, rows, ledger=ledger, accept_useless=True)
    account = ledger.account("wards")
    return pv.publish(release, folder / "wards", study=study, account=account).page


@pytest.fixture(scope="module")
def private(folder):
    study = samples.make_study(states=samples.HOSTILE)
    diagnostics = pv.inspect(study, samples.stays(300, labels=samples.HOSTILE))
    return write_private_page(diagnostics, folder / "curator" / "private.html")


@pytest.mark.smoke
def test_a_hostile_page_is_as_it_should_be(browser, hostile):
    assert pages.faults(browser, hostile, width=390, scheme="light") == []


@pytest.mark.parametrize(("width", "scheme"), EVERYWHERE)
@pytest.mark.parametrize("kind", ["hostile", "arms", "wards", "private"])
def test_a_page_is_as_it_should_be(browser, kind, width, scheme, request):
    file = request.getfixturevalue(kind)
    assert pages.faults(browser, file, width=width, scheme=scheme) == []
    if kind == "private":
        assert pages.hidden_mark(browser, file, width=width, scheme=scheme) == []


@pytest.mark.parametrize("kind", ["off-policy", "by-start", "actions", "restricted"])
def test_every_kind_of_release_is_as_it_should_be(browser, folder, kind):
    page = pv.publish(samples.release(kind), folder / kind).page
    for width, scheme in ((390, "dark"), (1280, "light")):
        assert pages.faults(browser, page, width=width, scheme=scheme) == []


def test_the_private_page_prints_its_mark_on_every_sheet(browser, private, folder):
    sheets = PdfReader(pages.print_page(browser, private, folder / "private.pdf")).pages
    assert all("PRIVATE For the curator only." in sheet.extract_text() for sheet in sheets)


def test_forty_states_print_on_two_sheets(browser, wards, folder):
    assert len(PdfReader(pages.print_page(browser, wards, folder / "wards.pdf")).pages) <= 2


# Mistakes that are planted, and must be found

POLICY = 'http-equiv="Content-Security-Policy"'
MISTAKES = {
    "an external image": (
        "<main",
        '<img alt="logo" src="https://example.invalid/logo.png"><main',
        "request: https://example.invalid/logo.png",
    ),
    "a script": ("<main", "<script>undefined.broken</script><main", "undefined"),
    "low contrast": ("--soft: light-dark(#4a5866", "--soft: light-dark(#a9b4bf", "color-contrast"),
    "pale marks": ("--mark: light-dark(#084f78", "--mark: light-dark(#d5e6f1", "contrast 1."),
    "too wide": ("<main", '<div style="width: 2000px">wide</div><main', "scrolls sideways"),
    "far down": ("<main", '<p style="height: 900px"></p><main', "below the first screen"),
    "small print": ("<main", '<p style="font-size: 8px">small</p><main', "8.0 pixels"),
    "no focus": ("outline: 3px solid", "outline: 0 none", "focus does not show"),
    "no main": ("<main", "<div", "landmark"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(browser, arms, folder, mistake):
    original, planted, expected = MISTAKES[mistake]
    text = arms.read_text()
    assert original in text
    assert POLICY in text  # which would keep a mistake from doing harm
    text = text.replace(original, planted, 1).replace(POLICY, 'name="no-policy"')
    file = folder / "planted.html"
    file.write_text(text)
    faults = pages.faults(browser, file, width=800, scheme="light")
    assert any(expected in fault for fault in faults), faults


def test_the_content_security_policy_blocks_what_a_mistake_would_load(browser, arms, folder):
    file = folder / "refused.html"
    planted = '<img alt="x" src="https://example.invalid/x.png"><script>alert(1)</script><main'
    file.write_text(arms.read_text().replace("<main", planted, 1))
    with pages.Opened(browser, file, 1200, "light") as opened:
        assert opened.requests == []
        assert any("Content Security Policy" in line for line in opened.messages)
        assert not any("dialog" in line for line in opened.messages)


def test_a_banner_that_scrolls_away_is_found(browser, private, folder):
    file = folder / "moving.html"
    file.write_text(private.read_text().replace("position: sticky", "position: static"))
    assert pages.hidden_mark(browser, file, width=1280, scheme="light")
