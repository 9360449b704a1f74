"""The site: every link leads somewhere, nothing is fetched, mathematics is set, the search answers.

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
import yaml

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # docs.make is not installed

from docs.make.checks import problems, slug  # noqa: E402
from docs.make.docstrings import fenced  # noqa: E402
from docs.make.typography import TexError, lettered, mathml, set_mathematics  # noqa: E402

LOADED = re.compile(r'<(?:script|img|source|iframe)\b[^>]*?\ssrc="([^"]*)"')
LINKED = re.compile(r'<link\b[^>]*?\shref="([^"]*)"')
ANSWERS = {
    "confidence interval": "howto/intervals.html",
    "date": "howto/csv.html",
    "semicolon": "howto/csv.html",
    "excel": "howto/excel.html",
    "docker": "howto/docker.html",
    "nightly": "howto/nightly.html",
    "glossary": "glossary.html",
    "arm": "howto/arms.html",
    "epsilon": "howto/choosing.html",
    "p-value": "howto/intervals.html",
    "install": "install.html",
    "windows": "install.html",
    "action": "howto/actions.html",
    "off-policy": "howto/another-policy.html",
    "other policy": "howto/another-policy.html",
    "budget": "howto/choosing.html",
    "ledger": "ledger.html",
    "delta": "howto/choosing.html",
    "H": "howto/choosing.html",
    "missing": "howto/csv.html",
    "NaN": "howto/csv.html",
    "noise": "howto/choosing.html",
    "seed": "faq.html",
    "spark": "tutorials/platform-engineer.html",
    "bounds": "howto/choosing.html",
    "features": "study.html",
    "continuous": "howto/continuous-states.html",
    "report": "report.html",
    "JSON": "faq.html",
    "license": "faq.html",
    "cite": "faq.html",
    "GDPR": "faq.html",
    "withdraw": "faq.html",
    "interim": "faq.html",
    "subgroup": "faq.html",
    "dropout": "faq.html",
    "error": "troubleshooting.html",
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
    return {path: path.read_text() for path in built.rglob("*.html")}


def sources():
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "docs/*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [name.removeprefix("docs/") for name in names if (ROOT / name).exists()]


def address(source):
    """Where the site has a page of ``docs``."""
    return re.sub(r"(^|/)README\.html$", r"\1index.html", source.removesuffix(".md") + ".html")


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


def test_nothing_is_loaded_from_elsewhere(built, pages):
    for path, text in pages.items():
        for name in [*LOADED.findall(text), *LINKED.findall(text)]:
            there = (path.parent / unquote(name)).resolve()
            assert name.startswith("data:") or there.exists(), f"{path.name}: {name}"
    for sheet in built.rglob("*.css"):
        text = sheet.read_text()
        assert "@import" not in text
        for name in re.findall(r"url\([\"']?([^)\"']+)", text):
            assert name.startswith("data:") or (sheet.parent / name).exists(), name
    for script in built.rglob("*.js"):
        if "search" in script.parts:  # texts of the pages
            continue
        assert not re.search(r"unpkg|jsdelivr|cdnjs|googleapis|gstatic", script.read_text())


def test_mathematics_is_set(pages, built):
    written = 0
    for source in sources():
        text = re.sub(r"```.*?```", "", (ROOT / "docs" / source).read_text(), flags=re.DOTALL)
        blocks = len(re.findall(r"^\$\$$", text, flags=re.MULTILINE)) // 2
        assert pages[built / address(source)].count("<math") >= blocks, source
        written += blocks
    assert written > 40
    for path, text in pages.items():
        if {"files", "samples"} & set(path.parts):
            continue
        body = text.partition("<article")[2].partition("</article")[0]
        said = re.sub(r"<(code|pre|math|svg|script)\b.*?</\1>", "", body, flags=re.DOTALL)
        said = re.sub(r"<[^>]*>", "", said)
        assert "$$" not in said, path.name
        assert "\\frac" not in said, path.name
        left = re.findall(r".{20}[\^_]\{.{10}", said)
        assert not left, f"{path.name}: {left}"


def test_the_steps_go_through_every_page(pages, built):
    here, seen = built / "index.html", set()
    while here is not None:
        assert here not in seen
        seen.add(here)
        found = re.search(
            r'<a href="([^"]+)" class="md-footer__link md-footer__link--next"', pages[here]
        )
        here = found and (here.parent / found[1]).resolve()
    assert {built / address(source) for source in sources()} <= seen


def test_whatever_a_reader_would_stumble_over_is_a_warning_and_warnings_fail():
    text = re.sub(r"!!python/\S+", "0", (ROOT / "mkdocs.yml").read_text())
    chosen = yaml.safe_load(text)["validation"]
    assert set(chosen.values()) == {"warn"}
    assert {"omitted_files", "anchors", "unrecognized_links"} <= set(chosen)
    assert "-m mkdocs build --strict\n" in (ROOT / "Makefile").read_text()  # --quiet hides them


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        ("![](pictures/demo.png)", "has no text in its place"),
        ("```\nunnamed\n```", "names no language"),
        ("Indented:\n\n    code", "an indented block"),
        ("x)_+ and (y)_+ z", "an underscore makes words italic"),
        ("A paragraph:\n- a list", "a list without an empty line before it"),
    ],
)
def test_what_a_reader_would_stumble_over_is_found(added, complaint):
    assert list(problems("# A page\n\nA text with $x_1 + y_1$.")) == []
    (problem,) = problems(f"# A page\n\n{added}\n")
    assert complaint in problem


def test_a_page_without_a_title_is_found():
    assert list(problems("Some text.")) == ["it has no title"]


def test_headings_are_named_as_code_hosts_name_them():
    assert slug("`[data]` and p-values: how?") == "data-and-p-values-how"


def test_examples_of_docstrings_are_code():
    text = "Add.\n\n>>> 1 + 1\n2\n\nMore."
    assert fenced(text) == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."


def test_formulas_in_plain_text():
    assert lettered("e^{-kβ} φ_k(v') <= ||x||_2²") == (
        "e<sup>-kβ</sup> φ<sub>k</sub>(v&#x27;) ≤ ‖x‖<sub>2</sub>²"
    )
    assert lettered("a_{b_{c}} is_private") == "a<sub>b<sub>c</sub></sub> is<sub>private</sub>"
    assert lettered("g^(N-1) P^(q)") == "g<sup>N-1</sup> P<sup>(q)</sup>"
    assert lettered("<b>") == "&lt;b&gt;"


def test_formulas_of_a_page_are_set_and_code_is_left_alone():
    given = '<p>n_s &lt;= 1 <code>n_s</code> <span class="arithmatex">\\(\\alpha\\)</span></p>'
    made, wrong = set_mathematics(given)
    assert made.startswith("<p>n<sub>s</sub> ≤ 1 <code>n_s</code> <math")
    assert wrong == []
    _, wrong = set_mathematics('<div class="arithmatex">\\[\\nonsense\\]</div>')
    assert len(wrong) == 1


def test_formulas_in_tex():
    assert "<mfrac" in mathml(r"\frac{1}{2}", display=True)
    assert "munder" in mathml(r"\max_{k} k", display=True)
    assert 'mathvariant="normal"' in mathml(r"\Phi", display=False)
    for wrong in (r"\nonsense{x}", r"\frac{1}", r"a & b"):
        with pytest.raises(TexError):
            mathml(wrong, display=False)


def test_the_reference_has_every_public_name(pages, built):
    import privalue

    text = pages[built / "api.html"]
    missing = [name for name in privalue.__all__ if f' id="privalue.{name}"' not in text]
    assert missing == ["__version__"]


def test_the_samples_say_that_nobody_is_in_them(pages, built):
    for name in ("report", "plan", "private"):
        text = pages[built / "samples" / f"{name}.html"]
        assert "made-up people" in text
        assert len(text) < 500_000
    assert "not private" in pages[built / "samples" / "report.html"].lower()
    assert "PRIVATE" in pages[built / "samples" / "private.html"]


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


def test_in_a_browser_without_network_the_first_result_answers(browser, built):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    asked, said = set(), []
    page.on("request", lambda request: asked.add(request.url.partition(":")[0]))
    page.on("console", lambda message: said.append(message.text))
    answers = {}
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
    for query, link in answers.items():
        assert link.partition("?")[0] == ANSWERS[query], (query, link)
    assert said == []
    assert asked == {"file", "blob"}


def test_in_a_browser_pages_have_outline_copy_buttons_and_two_schemes(browser, built):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    asked = set()
    page.on("request", lambda request: asked.add(request.url.partition(":")[0]))
    samples = ("samples/report", "samples/plan")
    for name in ("index", "howto/csv", "faq", "study", "proofs/noise", "api", "tour", *samples):
        page.goto((built / f"{name}.html").as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than a phone"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((built / "howto" / "csv.html").as_uri())
    assert page.locator(".md-sidebar--secondary .md-nav__link:visible").count() >= 3
    assert page.locator(".md-clipboard, .md-code__button").count() >= 3
    assert page.get_attribute("body", "data-md-color-scheme") == "default"
    page.locator("label[for=__palette_1]").click()
    assert page.get_attribute("body", "data-md-color-scheme") == "slate"
    page.close()
    assert asked <= {"file", "blob", "data"}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_nobody_is_kept_from_reading(browser, built, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name in ("index", "howto/another-policy", "study", "samples/plan"):
        page.goto((built / f"{name}.html").as_uri())
        page.wait_for_load_state()
        found = axe.run(page).response["violations"]
        faults = [(one["id"], one["nodes"][0]["html"][:100]) for one in found]
        assert [fault for fault in faults if fault[0] != "empty-table-header"] == [], name
    context.close()
