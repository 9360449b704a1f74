"""Write the pages that are made from the program: `python -m docs.make.references`."""

from docs.make import ROOT
from docs.make.command_reference import command_reference
from docs.make.core_files import guarantee
from docs.make.study_reference import study_reference
from privalue.cli import app


def references() -> dict[str, str]:
    """Return the pages that are made from the program, by name."""
    return {
        "docs/study.md": study_reference(),
        "docs/commands.md": command_reference(app),
        "docs/guarantee.md": guarantee(),
    }


if __name__ == "__main__":
    for name, text in references().items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"Wrote {name}")
