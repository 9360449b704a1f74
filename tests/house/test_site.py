"""The site: every link leads somewhere, nothing is fetched, formulas are set, the search answers.

It is built once, whatever the number of workers.
"""

import fcntl
import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import privalue

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|source|iframe)\b[^>]*?\ssrc="([^"]*)"')
LINKED = re.compile(r'<link\b[^>]*?\shref="([^"]*)"')
ANSWERS = {
    "epsilon": "planning.html",
    "docker": "install.html",
    "arm": "arms.html",
    "spark": "sources.html",
    "ledger": "ledger.html",
    "glossary": "glossary.html",
}


def build(out):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of the site: the first worker that needs it builds it, others wait."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    out = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site.built").exists():
            build(out)
            (shared / "site.built").touch()
    return out


@pytest.fixture(scope="session")
def pages(built):
    return {path: path.read_text() for path in built.rglob("*.html") if path.name != "404.html"}


def test_every_link_and_every_heading_that_is_linked_exists(pages):
    named = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in re.findall(r'<a\b[^>]*?\shref="([^"]+)"', text):
            if re.match(r"https?:|mailto:", link):
                continue
            name, _, anchor = unquote(html.unescape(link)).partition("#")
            there = (path.parent / name).resolve() if name else path
            there = there / "index.html" if there.is_dir() else there
            assert there.exists(), f"{path.name}: {link}"
            known = named.get(there, {anchor})
            assert not anchor or anchor in known or anchor == "__skip", f"{path.name}: {link}"


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, text in pages.items():
        for name in [*LOADED.findall(text), *LINKED.findall(text)]:
            there = (path.parent / unquote(name)).resolve()
            assert name.startswith("data:") or there.exists(), f"{path.name}: {name}"


def test_formulas_are_set(pages):
    assert sum(text.count("<math") for text in pages.values()) > 500
    for path, text in pages.items():
        body = text.partition("<article")[2].partition("</article")[0]
        said = re.sub(r"<(code|pre|math|svg|script)\b.*?</\1>", "", body, flags=re.DOTALL)
        said = re.sub(r"<[^>]*>", "", said)
        assert "$" not in said, path.name
        left = re.findall(r".{20}(?:[\^_]\{|\\[a-z]).{10}", said)
        assert not left, f"{path.name}: {left}"


def test_the_reference_is_made_from_the_code(pages, built):
    text = pages[built / "python.html"]
    missing = [name for name in privalue.__all__ if f' id="privalue.{name}"' not in text]
    assert missing == ["__version__"]
    assert "max_states_per_trajectory" in pages[built / "study.html"]
    assert "--accept-useless" in pages[built / "commands.html"]


def test_the_sample_says_that_nobody_is_in_it(pages, built):
    text = pages[built / "samples" / "report.html"]
    assert "made-up people" in text
    assert "not private" in text.lower()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        yield opened
        opened.close()


def test_in_a_browser_without_network_the_search_answers(browser, built):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    asked, answers = set(), {}
    page.on("request", lambda request: asked.add(request.url.partition(":")[0]))
    page.goto((built / "index.html").as_uri())
    page.focus(".md-search__input")
    for query in ANSWERS:
        page.fill(".md-search__input", "")
        page.press(".md-search__input", "Shift")  # the theme listens to keys
        page.wait_for_selector(".md-search-result__link", state="detached")
        page.fill(".md-search__input", query)
        page.press(".md-search__input", "Shift")
        first = page.wait_for_selector(".md-search-result__link", state="attached")
        answers[query] = first.evaluate("link => link.href").replace(built.as_uri() + "/", "")
    page.close()
    assert {query: link.partition("?")[0] for query, link in answers.items()} == ANSWERS
    assert asked <= {"file", "about"}


def test_in_a_browser_no_page_is_wider_than_a_phone(browser, built):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for path in sorted(built.rglob("*.html")):
        page.goto(path.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path.name} is {wide} pixels wider than a phone"
    page.close()
