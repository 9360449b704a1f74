"""List the pages in the order of the data flow. A page that is not listed here fails the build."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Pages that belong together: their sources, relative to the repository."""

    title: str
    sources: tuple[str, ...]


def navigation() -> list[Group]:
    """Return the groups of pages.

    Proofs come in the order of their own table, decisions by number.
    """
    proofs = _linked("docs/proofs/README.md")
    decisions = sorted(p.name for p in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    return [
        _docs("Begin", "../README.md", "README.md", "install.md", "tour.md"),
        _docs(
            "Tutorials",
            "tutorials/statistician.md",
            "tutorials/rl-researcher.md",
            "tutorials/platform-engineer.md",
        ),
        _docs(
            "Describe and plan", "study.md", "arms.md", "actions.md", "off-policy.md", "planning.md"
        ),
        _docs("Read the data", "sources.md", "engines.md", "spark.md", "worlds.md"),
        _docs("Add noise", "mechanisms.md", "calibration.md", "accuracy.md"),
        _docs("Release and keep count", "report.md", "ledger.md", "recurring.md"),
        _docs(
            "What is promised",
            "guarantee.md",
            "threat-model.md",
            "known-limits.md",
            "reliability.md",
        ),
        _docs("Reference", "commands.md", "python.md", "glossary.md"),
        _docs("The paper and others", "errata.md", "reproduction.md", "examples.md", "peers.md"),
        _docs("Proofs", *(f"proofs/{name}" for name in ("README.md", *proofs))),
        _docs("Decisions", *(f"decisions/{name}" for name in ("README.md", *decisions))),
        Group(title="Project", sources=("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]


def _docs(title: str, *names: str) -> Group:
    """Return a group of pages, named relative to ``docs``."""
    return Group(title=title, sources=tuple(f"docs/{n}".replace("docs/../", "") for n in names))


def _linked(table: str) -> list[str]:
    """Return the pages of a folder in the order in which its README first links them."""
    text = (ROOT / table).read_text(encoding="utf-8")
    there = {p.name for p in (ROOT / table).parent.glob("*.md")} - {"README.md"}
    found = {name: text.find(f"]({name})") for name in there}
    return sorted((name for name in there if found[name] >= 0), key=found.__getitem__)


def written() -> set[str]:
    """Return every Markdown file of the documentation that exists, relative to the repository."""
    return {str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")}


def address(source: str) -> str:
    """Return the path of a page in the site.

    >>> address("docs/guarantee.md"), address("docs/proofs/README.md")
    ('guarantee.html', 'proofs/index.html')
    """
    if source == "README.md":
        return "index.html"
    if source == "docs/README.md":
        return "contents.html"
    name = source.removeprefix("docs/").removesuffix(".md")
    return (name.removesuffix("README") + "index" if name.endswith("/README") else name).lower() + (
        ".html"
    )
