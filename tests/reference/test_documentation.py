"""Every Python block of the documentation runs, in order, page by page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own documentation


def test_the_python_of_the_readme_runs_on_simulated_data(tmp_path, monkeypatch):
    from privalue.cli import run

    monkeypatch.chdir(tmp_path)
    assert run(["simulate", "chain", "--trajectories", "500", "--out", "trial.parquet"]) == 0
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own documentation
    assert (tmp_path / "released" / "release.json").exists()


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    from privalue.cli import run

    monkeypatch.chdir(tmp_path)
    assert run(["simulate", "chain", "--trajectories", "500", "--out", "trial.parquet"]) == 0
    commands = re.findall(
        r"^\.venv/bin/privalue ([^#\n]*)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert len(commands) == 5
    for command in commands:
        assert run(command.split()) == 0


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_study_reference_is_made_from_the_models():
    from privalue.report.reference import study_reference

    assert (ROOT / "docs" / "study.md").read_text() == study_reference()
