"""Show files of the repository as pages of the site: programs, and the example notebook."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".cff": "yaml", ".sh": "sh"}


def program(path: Path, root: Path) -> str:
    """Return a file of the repository as a page that the search leaves out."""
    name = path.relative_to(root).as_posix()
    return (
        f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n# {name}\n\n"
        f"````{LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8')}\n````\n"
    )


def notebook(path: Path) -> str:
    """Return a notebook as a page: its texts, its code, and what its cells show."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the Markdown of one cell."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"````python\n{source}\n````"
    for output in cell["outputs"]:
        shown = output.get("data", {})
        if "image/png" in shown:
            png = "".join(shown["image/png"]).replace("\n", "")
            yield f"![What the cell draws](data:image/png;base64,{png})"
        else:
            text = "".join(output.get("text") or shown["text/plain"]).rstrip()
            yield f"````text\n{text}\n````"
