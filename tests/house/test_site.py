"""The site builds strictly, which checks every link and anchor, and its search answers offline."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
ANSWERS = {
    "epsilon": "planning.html",
    "docker": "install.html",
    "spark": "sources.html",
    "ledger": "ledger.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return out


def test_in_a_browser_without_network_the_search_answers(site):
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium")
    schemes, answers = set(), {}
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: schemes.add(request.url.partition(":")[0]))
        page.goto((site / "index.html").as_uri())
        page.focus(".md-search__input")
        for query in ANSWERS:
            page.fill(".md-search__input", "")
            page.press(".md-search__input", "Shift")  # the theme listens to keys
            page.wait_for_selector(".md-search-result__link", state="detached")
            page.fill(".md-search__input", query)
            page.press(".md-search__input", "Shift")
            first = page.wait_for_selector(".md-search-result__link", state="attached")
            link = first.evaluate("link => link.href").replace(site.as_uri() + "/", "")
            answers[query] = link.partition("?")[0]
        browser.close()
    assert answers == ANSWERS
    assert schemes <= {"file", "about"}
