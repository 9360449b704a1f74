"""Print a public page to PDF, by whichever program is there: Chromium, or WeasyPrint."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from privalue._files import whole_file
from privalue.errors import MissingComponentError, UnavailableError, UsageError

PAPERS = ("A4", "Letter")
_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "microsoft-edge",
)
_SECONDS = 120
_ARMS = {"pv-arm0": "#084f78", "pv-arm1": "#8a4c00", "pv-arm2": "#1e6a43"}
_PAINT = {
    "pv-hit": 'fill="none"',
    "pv-tip": 'display="none"',
    "pv-grid": 'stroke="#bbbbbb"',
    "pv-bound": 'stroke="#666666" stroke-dasharray="5 4"',
    "pv-total": 'stroke="OWN" stroke-width="1.6"',
    "pv-inner": 'fill="OWN" fill-opacity="0.5"',
    "pv-arrow": 'fill="OWN"',
    "pv-value": 'fill="OWN"',
    "pv-doubtful": 'fill="#ffffff" stroke="#8a4c00" stroke-width="2"',
}


def require_printer() -> str | None:
    """Return the browser that prints, None for WeasyPrint; refuse before any work if neither is.

    Raises:
        MissingComponentError: there is nothing to print with.
    """
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is not None:
        return browser
    try:
        import weasyprint  # type: ignore[import-not-found,unused-ignore] # noqa: F401, PLC0415
    except (ImportError, OSError):  # without its libraries, the import fails with the latter
        raise MissingComponentError(
            "a PDF is printed by Chromium or WeasyPrint, and neither is installed: install one of "
            "them (pip install weasyprint), or print the page from a browser"
        ) from None
    return None


def checked_paper(paper: str) -> str:
    """Return the name of a paper as the style writes it.

    Raises:
        UsageError: it is another one.
    """
    sizes = {name.lower(): name for name in PAPERS}
    if paper.lower() not in sizes:
        raise UsageError(f"paper={paper!r}: it must be {' or '.join(PAPERS)}")
    return sizes[paper.lower()]


def write_pdf(page: str, target: Path, *, paper: str = "A4") -> Path:
    """Print a page.

    Args:
        page: the HTML document, which loads nothing.
        target: where the PDF goes.
        paper: "A4" or "Letter".

    Returns:
        The path of the file.

    Raises:
        UsageError: another paper, or a place that cannot be written.
        MissingComponentError: there is nothing to print with.
        UnavailableError: the browser did not print it.
    """
    size = checked_paper(paper)
    browser = require_printer()
    sized = f"<style>@page {{ size: {size}; }}</style></head>"
    unfolded = page.replace("</head>", sized, 1).replace("<details>", "<details open>")
    made = _by_weasyprint(unfolded) if browser is None else _by_browser(browser, unfolded)
    try:
        with whole_file(target, mode=0o644) as partial:
            partial.write_bytes(made)
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}") from None
    return target


def _by_browser(browser: str, page: str) -> bytes:
    """Print a page by a browser of its own, which asks nothing of the network."""
    with tempfile.TemporaryDirectory(prefix="privalue-pdf-") as folder:
        source, made = Path(folder) / "page.html", Path(folder) / "page.pdf"
        source.write_text(page, encoding="utf-8", errors="replace")
        # Chromium's sandbox does not start for root, as in containers. The page's own policy lets
        # nothing run but its script.
        root = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        try:
            done = subprocess.run(
                [
                    browser,
                    *("--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer"),
                    *("--disable-background-networking", "--disable-component-update"),
                    *("--disable-sync", "--disable-quic", *root),
                    f"--user-data-dir={folder}/profile",
                    f"--print-to-pdf={made}",
                    source.as_uri(),
                ],
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            done = None
        if done is None or not made.exists():
            said = re.findall(r"[^\r\n]+", (done.stderr if done else b"").decode(errors="replace"))
            why = f": {said[-1][:200]}" if said else ""
            raise UnavailableError(f"{browser} did not print the page{why}; try again")
        return made.read_bytes()


def _by_weasyprint(page: str) -> bytes:
    """Print a page by WeasyPrint, which draws SVG without the style of the page."""
    from weasyprint import HTML  # noqa: PLC0415

    painted = re.sub(r'class="((?:pv-\w+ ?)+)"', _painted, page)
    return bytes(HTML(string=painted, url_fetcher=_refused).write_pdf())


def _painted(found: re.Match[str]) -> str:
    """Return the class of a mark with its colours as attributes: those of paper."""
    kinds = found[1].split()
    own = next((_ARMS[kind] for kind in kinds if kind in _ARMS), _ARMS["pv-arm0"])
    paint = next((_PAINT[kind] for kind in reversed(kinds) if kind in _PAINT), "")
    return f"{found[0]} {paint.replace('OWN', own)}"


def _refused(address: str, *_: object, **__: object) -> None:
    """Refuse to load anything: a page is one file."""
    raise ValueError(address)
