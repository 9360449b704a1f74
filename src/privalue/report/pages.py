"""Make report.html, which a privacy office signs and a clinician reads, and registry.yaml."""

from collections.abc import Mapping

from privalue.report.description import Description
from privalue.report.html import PUBLIC_MARK, environment, render


def release_page(description: Description, answers: Mapping[str, str]) -> str:
    """Return the page of a release, self-contained.

    Args:
        description: of the release.
        answers: of the curator, the justification among them.
    """
    return render("report.html", description, mark=PUBLIC_MARK, answers=answers)


def registry_yaml(description: Description, answers: Mapping[str, str]) -> str:
    """Return an entry for a registry of deployments of differential privacy."""
    return render("registry.yaml", description, answers=answers)


def notebook_html(description: Description, **sections: str) -> str:
    """Return what a notebook shows.

    Args:
        description: of whatever is shown.
        sections: the facts to show, by section, with their titles.
    """
    return render("notebook.html", description, sections=sections)


def load_page() -> None:
    """Compile the page's templates: what would fail to load fails before the charge."""
    for name in ("report.html", "parts.html", "notices.txt"):
        environment(is_html=True).get_template(name)
    for name in ("registry.yaml", "notices.txt", "commands.txt", "facts.txt"):
        environment(is_html=False).get_template(name)
