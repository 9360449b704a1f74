"""`python -m docs.make.references`: writes the pages that are made from the program."""

from docs.make.navigation import ROOT
from privalue.cli._app import app
from privalue.report._reference import study_reference
from privalue.report._reference_commands import command_reference


def references() -> dict[str, str]:
    """The pages that are made from the program, by name."""
    return {"docs/study.md": study_reference(), "docs/commands.md": command_reference(app)}


if __name__ == "__main__":
    for name, text in references().items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"Wrote {name}")
