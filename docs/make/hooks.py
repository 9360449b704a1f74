"""Take part in MkDocs' build: links out of `docs`, mathematics, checks, samples, no network.

MkDocs calls the functions named ``on_...``. A problem is logged as a warning, and ``--strict``
makes every warning an error.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.make import offline, samples
from docs.make.checks import problems
from docs.make.shown import LANGUAGES, notebook, program
from docs.make.typography import set_mathematics

_log = logging.getLogger("mkdocs.privalue")
_PROJECT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"} | {
    "SECURITY.md": "security.md"
}
_NOTEBOOK = "examples/notebook.ipynb"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_ONE_LINE = re.compile(r'<div class="language-(?:text|output) highlight(?=">[^\n]*\n</code>)')
_UNNAMED = re.compile(  # a section with a page of its own is labelled by an empty element
    r'aria-labelledby="__nav_\w+"(?P<between>[^>]*>\s*<label class="md-nav__title" for="__nav_\w+">'
    r'\s*<span class="md-nav__icon md-icon"></span>\s*)(?P<name>[^<>"]*[^<>"\s])'
)
_SEARCH = 'data-md-component="search" role="dialog"'
_WEIGHT = {
    "decisions.md": 0.2,
    "proofs/": 0.3,
    "changelog.md": 0.1,
    "howto/": 4.0,
    "start/": 1.5,
    "api.md": 0.3,
    "peers.md": 0.3,
    "faq.md": 0.8,
    "ledger.md": 2.0,
    "troubleshooting.md": 2.0,
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the pages of folders that list themselves, and give the search its worker."""
    config.nav = _filled(config.nav or [], Path(config.docs_dir))
    offline.prepare(config)
    return config


def _filled(nav: Any, docs: Path) -> Any:
    """Return the navigation with each ``folder/`` replaced by the folder's pages."""
    if isinstance(nav, list):
        return [_filled(entry, docs) for entry in nav]
    if isinstance(nav, dict):
        return {title: _filled(entry, docs) for title, entry in nav.items()}
    return _listed(docs / nav) if nav.endswith("/") else nav


def _listed(folder: Path) -> list[str]:
    """Return a folder's pages in the order in which its README first links them."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    there = {page.name for page in folder.glob("*.md")}
    linked = dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)", text))
    return [f"{folder.name}/{name}" for name in ["README.md", *linked] if name in there]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not below ``docs``, and the samples."""
    root = Path(config.config_file_path).parent
    made = {page: (root / name).read_text(encoding="utf-8") for name, page in _PROJECT.items()}
    made["notebook.md"] = notebook(root / _NOTEBOOK)
    sources = [root / name for name in _PROJECT]
    sources += [Path(f.abs_src_path) for f in files.documentation_pages() if f.abs_src_path]
    for source in sources:
        for found in _LINK.finditer(source.read_text(encoding="utf-8")):
            aimed = (source.parent / unquote(found["path"])).resolve()
            if aimed.suffix in LANGUAGES and aimed.is_file() and _outside(aimed, root):
                made[_page_of(aimed, root)] = program(aimed, root)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for file in samples.files(config):
        files.append(file)
    return files


def _outside(path: Path, root: Path) -> bool:
    """Tell whether a file belongs to the repository and is not below ``docs``."""
    return path.is_relative_to(root) and not path.is_relative_to(root / "docs")


def _page_of(path: Path, root: Path) -> str:
    """Return the page that shows a file of the repository."""
    return f"files/{path.relative_to(root).as_posix()}.md"


def on_page_markdown(
    markdown: str, *, page: Page, config: MkDocsConfig, files: Files, **_: Any
) -> str:
    """Check a page, aim its links at the site, and weigh it for the search."""
    name = page.file.src_uri
    root = Path(config.config_file_path).parent
    for beginning, weight in _WEIGHT.items():
        if name.startswith(beginning):
            page.meta.setdefault("search", {"boost": weight})
    if name.startswith("files/"):
        return markdown
    for problem in problems(markdown):
        _log.warning("%s: %s", name, problem)
    known = {page: original for original, page in [*_PROJECT.items(), (_NOTEBOOK, "notebook.md")]}
    source = root / known[name] if name in known else root / "docs" / name

    def aimed(found: re.Match[str]) -> str:
        there = (source.parent / unquote(found["path"])).resolve()
        target = _in_site(there, root)
        if target is None:
            return found[0]
        here = posixpath.dirname(name) or "."
        return posixpath.relpath(target, here) + (found["anchor"] or "")

    return _LINK.sub(aimed, markdown)


def _in_site(path: Path, root: Path) -> str | None:
    """Return a file's path below ``docs`` as MkDocs knows it; None if it has none."""
    if path.is_relative_to(root / "docs"):
        return path.relative_to(root / "docs").as_posix()
    if path == root / "README.md":
        return "README.md"
    name = path.name
    if path.parent == root and name in _PROJECT:
        return _PROJECT[name]
    if _outside(path, root) and path.suffix in LANGUAGES and path.is_file():
        return _page_of(path, root)
    if path == root / _NOTEBOOK:
        return "notebook.md"
    return None


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Set the formulas of a page, and let messages of one line be read without scrolling."""
    html = _ONE_LINE.sub(r"\g<0> one-line", html)
    if page.file.src_uri.startswith("files/") or page.file.src_uri == "api.md":
        return html  # programs, and docstrings with names such as stay_id
    text, unset = set_mathematics(html)
    for problem in unset:
        _log.warning("%s: formula %s", page.file.src_uri, problem)
    return text


def on_post_page(output: str, **_: Any) -> str:
    """Give the theme's search and its lists of pages their names, for those who hear the page."""
    named = output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
    return _UNNAMED.sub(r'aria-label="\g<name>"\g<between>\g<name>', named)


def on_post_build(config: MkDocsConfig) -> None:
    """Take the last outside addresses out of the theme's scripts."""
    offline.finish(Path(config.site_dir))
