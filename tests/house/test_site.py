"""The site: every link leads somewhere, nothing is fetched, mathematics is set, no page is lost."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # docs.make is not installed

from docs.make import navigation, site  # noqa: E402
from docs.make.typography import TexError, lettered, mathml  # noqa: E402

VOID = {"meta", "link", "img", "br", "input", "hr"}
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


class Html(HTMLParser):
    """What a page links, loads, names and says."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.names, self.open = [], [], set(), []
        self.words, self.formulas, self.errors = [], 0, []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "a":
            self.links.append(given["href"])
        if given.get(LOADED.get(tag, "")) is not None:
            self.loaded.append(given[LOADED[tag]])
        if "style" in given or "srcset" in given:
            self.errors.append(f"{tag} has {given}")
        if tag == "img":
            assert given["alt"].strip()
        if "id" in given:
            assert given["id"] not in self.names, f"two things are called {given['id']}"
            self.names.add(given["id"])
        self.formulas += tag == "math"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"code", "script", "math", "style"} & set(self.open):
            self.words.append(data)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "site"
    site.build(out)
    return out


@pytest.fixture(scope="module")
def pages(built):
    return {path: Html(path.read_text()) for path in built.rglob("*.html")}


def test_every_link_and_every_heading_that_is_linked_exists(pages):
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("http://", "https://")):
                continue
            name, _, anchor = unquote(link).partition("#")
            there = (path.parent / name).resolve() if name else path
            assert there.exists(), f"{path.name}: {link}"
            assert not anchor or anchor in pages[there].names, f"{path.name}: {link}"


def test_nothing_is_loaded_from_elsewhere(built, pages):
    for path, page in pages.items():
        assert not page.errors
        for address in page.loaded:
            assert address == "data:," or (path.parent / address).exists(), (
                f"{path.name}: {address}"
            )
    for sheet in built.glob("*.css"):
        text = sheet.read_text()
        assert "@import" not in text
        for address in re.findall(r"url\(\"?([^)\"]+)", text):
            assert (built / address).exists()
    for script in built.glob("*.js"):
        if script.name != "search-index.js":  # that is text
            assert not re.search(r"https?:|fetch|XMLHttpRequest|import\(", script.read_text())


def test_mathematics_is_set(pages, built):
    written = 0
    for source in navigation.written():
        text = re.sub(r"```.*?```", "", (ROOT / source).read_text(), flags=re.DOTALL)
        blocks = len(re.findall(r"^\$\$$", text, flags=re.MULTILINE)) // 2
        found = pages[built / navigation.address(source)].formulas
        assert found >= blocks, source
        written += blocks
    assert written > 40
    for path, page in pages.items():
        if path.is_relative_to(built / "files"):
            continue
        said = "".join(page.words)
        assert "$$" not in said
        assert "\\frac" not in said
        left = re.findall(r".{20}[\^_]\{.{10}", said)
        assert not left, f"{path.name}: {left}"


def test_every_page_is_in_the_navigation_and_the_steps_go_through_all_of_them(pages, built):
    listed = [source for group in navigation.navigation() for source in group.sources]
    assert navigation.written() <= set(listed)
    for page in pages.values():
        assert len(page.links) > len(listed)
    here, seen = built / "index.html", []
    while here is not None:
        seen.append(here)
        found = re.search(r'<a rel="next" href="([^"]+)"', here.read_text())
        here = found and (here.parent / found[1]).resolve()
    assert [str(path.relative_to(built)) for path in seen] == list(map(navigation.address, listed))


def test_formulas_in_plain_text():
    assert lettered("e^{-kβ} φ_k(v') <= ||x||_2²") == (
        "e<sup>-kβ</sup> φ<sub>k</sub>(v&#x27;) ≤ ‖x‖<sub>2</sub>²"
    )
    assert lettered("a_{b_{c}} is_private") == "a<sub>b<sub>c</sub></sub> is<sub>private</sub>"
    assert lettered("g^(N-1) P^(q)") == "g<sup>N-1</sup> P<sup>(q)</sup>"
    assert lettered("<b>") == "&lt;b&gt;"


def test_formulas_in_tex():
    assert "<mfrac" in mathml(r"\frac{1}{2}", display=True)
    assert "munder" in mathml(r"\max_{k} k", display=True)
    assert 'mathvariant="normal"' in mathml(r"\Phi", display=False)
    for wrong in (r"\nonsense{x}", r"\frac{1}", r"a & b"):
        with pytest.raises(TexError):
            mathml(wrong, display=False)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the documentation, to be broken."""
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for module in (navigation, site):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("page", "added", "complaint"),
    [
        ("tour.md", "[away](nowhere.md)", "the link nowhere.md leads nowhere"),
        ("tour.md", "[away](study.md#nowhere)", "leads to no heading"),
        ("tour.md", "[away](#nowhere)", "leads to no heading"),
        ("tour.md", "![](pictures/demo.png)", "has no text in its place"),
        ("tour.md", "$$\n\\nonsense\n$$", "is not understood"),
        ("tour.md", "```\nunnamed\n```", "names no language"),
        ("tour.md", "Indented:\n\n    code", "an indented block"),
        ("tour.md", "x)_+ and (y)_+ z", "an underscore makes words italic"),
        ("lost.md", "# Lost", "not in docs/make/navigation.py"),
        ("proofs/lost.md", "# Lost", "not in docs/make/navigation.py"),
    ],
)
def test_what_a_reader_would_trip_on_fails_the_build(copied, page, added, complaint):
    file = copied / "docs" / page
    file.write_text((file.read_text() if file.exists() else "") + f"\n\n{added}\n")
    with pytest.raises(site.SiteError, match=re.escape(complaint)):
        site.build(copied / "site")
    assert not (copied / "site").exists()


def test_a_page_that_is_listed_and_gone_fails_the_build(copied):
    (copied / "docs" / "tour.md").unlink()
    with pytest.raises(site.SiteError, match="does not exist"):
        site.build(copied / "site")


def test_in_a_browser_without_network_the_search_finds(built, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    flags = "--no-sandbox --headless --disable-gpu --disable-background-networking"
    quiet = "--disable-component-update --disable-sync --no-first-run --enable-logging=stderr"
    shown = subprocess.run(
        [
            browser,
            *flags.split(),
            *quiet.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND",  # there is no network
            "--virtual-time-budget=4000",
            "--dump-dom",
            f"{(built / 'proofs' / 'noise.html').as_uri()}?q=smooth+sensitivity",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CONSOLE" not in shown.stderr
    found = re.search(r'<ol id="found">(.*?)</ol>', shown.stdout, re.DOTALL)
    assert found is not None
    assert found[1].count("<li>") > 3
    assert 'href="../tour.html#core-the-guarantee"' in found[1]


def test_the_command_builds_or_says_what_is_wrong(copied, capsys):
    from docs.make.__main__ import main

    assert main([str(copied / "site")]) == 0
    assert f"pages: {copied / 'site' / 'index.html'}" in capsys.readouterr().out
    (copied / "docs" / "tour.md").write_text("# A tour\n\n[away](nowhere.md)\n")
    assert main([str(copied / "site")]) == 1
    assert "docs/tour.md: the link nowhere.md leads nowhere" in capsys.readouterr().err
