"""Let the search work from a folder, and load nothing from outside.

A browser starts no worker from a ``file:`` address. Material's own offline plugin replaces workers
by a script from a content network. Here the worker's code is put into a script of the site, and the
page starts it from memory.
"""

import json
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import material
from mkdocs.config.defaults import MkDocsConfig

_SCRIPT = "assets/javascripts/worker.js"
_FONT = "STIXTwoMath-Regular.ttf"  # not every system has a font for mathematics
_OUTSIDE = re.compile(r"https://unpkg\.com/")
_MENDED = {
    # Else every block of code is a landmark without a name.
    'x("nav",{class:"md-code__nav"})': 'x("div",{class:"md-code__nav"})',
    # Else a table that scrolls cannot be scrolled by keyboard in every browser.
    '{class:"md-typeset__scrollwrap"}': '{class:"md-typeset__scrollwrap",tabindex:"0"}',
}
_START = """\
// Start workers from memory: a page that was opened as a file may not start them by address.
if (location.protocol === "file:") {
  const source = %s;
  window.Worker = class extends Worker {
    constructor() { super(URL.createObjectURL(new Blob([source], { type: "text/javascript" }))); }
  };
}
"""


def prepare(config: MkDocsConfig) -> None:
    """Have every page load the script that starts the search's worker."""
    config.use_directory_urls = False  # a browser opens no index.html for a folder
    config.extra["polyfills"] = [_SCRIPT]


def finish(site: Path) -> None:
    """Write the worker and the index as scripts, and mend the theme's scripts.

    Args:
        site: the folder of the site that was built.
    """
    (worker,) = (Path(material.__file__).parent / "templates").glob(
        "assets/javascripts/workers/search.*.min.js"
    )
    code = re.sub(r"//# sourceMappingURL=\S+", "", worker.read_text(encoding="utf-8"))
    (site / _SCRIPT).write_text(_START % json.dumps(code), encoding="utf-8")
    index = site / "search" / "search_index.json"
    (site / "search" / "search_index.js").write_text(
        f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8"
    )
    for script in site.rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        # What is outside is for diagrams and for browsers of 2019, and there are neither.
        mended = _OUTSIDE.sub("none/", text)
        for theirs, ours in _MENDED.items():
            mended = mended.replace(theirs, ours)
        if mended != text:
            script.write_text(mended, encoding="utf-8")
    font = distribution("ziamath").locate_file(f"ziamath/fonts/{_FONT}")
    shutil.copy(str(font), site / "assets" / _FONT)
    for surplus in [*site.rglob("*.map"), site / "404.html"]:  # the latter is for servers
        surplus.unlink()
