"""Take pictures of every page, of made-up people: `python -m docs.make.pictures`.

The noise is real, so that each run gives other numbers; what is shown is the layout. Needs Chromium
(on the path) and Playwright.
"""

import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import privalue as pv
from docs.make import ROOT
from docs.make.samples import WARDS, people, study
from privalue.report import write_private_page

PICTURES = ROOT / "docs" / "pictures"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A page as somebody meets it, and the file that shows it."""

    name: str
    page: Path
    width: int = 1280
    height: int = 900
    scheme: str = "light"


def pages(folder: Path) -> list[Picture]:
    """Make the pages, and return what to take of them."""

    def published(key: str, chosen: pv.Study, rows: list[list[tuple[Any, ...]]]) -> Path:
        ledger = pv.open_ledger(folder / f"{key}.db")
        ledger.declare("clinic-2026", epsilon=2.5, delta=1e-5, unit="trajectory")
        release = pv.release(chosen, rows, ledger=ledger, accept_useless=True)
        made = pv.publish(
            release,
            folder / key,
            study=chosen,
            account=ledger.account("clinic-2026"),
            answers={"justification": "Agreed by the data access board."},
        )
        assert made.page is not None
        return made.page

    wards = published(
        "wards", study(WARDS, "Respiratory wards, 2026"), people(WARDS, 9000, rare=(4, 9))
    )
    arms = ["control", "treated"]
    stages = ["ill", "better", "well", "rehabilitation", "home"]
    trial = published(
        "trial",
        study(stages, "Early mobilisation", arms=arms),
        people(stages, 8000, arms=arms),
    )
    private = write_private_page(
        pv.inspect(study(WARDS, "Respiratory wards, 2026"), people(WARDS, 3000, rare=(4, 9))),
        folder / "curator" / "private.html",
    )
    return [
        Picture(name="report", page=wards),
        Picture(name="report-dark", page=wards, scheme="dark"),
        Picture(name="report-phone", page=wards, width=390, height=1400),
        Picture(name="report-arms", page=trial, height=1000),
        Picture(name="curator", page=private),
    ]


def take(browser: Browser, picture: Picture, folder: Path) -> Path:
    """Take one picture; nothing but the page itself is loaded."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
    )
    opened = context.new_page()
    opened.goto(picture.page.resolve().as_uri())
    target = folder / f"{picture.name}.png"
    opened.screenshot(path=target)
    context.close()
    return target


def main() -> int:
    """Take all pictures; return the exit code."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("pictures are taken by Chromium, which is not installed", file=sys.stderr)
        return 6
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        warnings.simplefilter("ignore", pv.PrivalueWarning)
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for picture in pages(Path(made)):
            print(f"Wrote {take(browser, picture, PICTURES).relative_to(ROOT)}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
