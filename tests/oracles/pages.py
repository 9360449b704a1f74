"""Check a page in a real browser, and list its faults.

There is no network: every request but the page itself is recorded and refused.
"""

import shutil
from pathlib import Path

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS, SCHEMES = (390, 1280), ("light", "dark")
LEAST_GRAPHIC, LEAST_TEXT = 3.0, 11.0
BELOW = "document.querySelector('.values .plot')?.getBoundingClientRect().bottom > innerHeight"


def _script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.js").read_text(encoding="utf-8")


def chromium() -> str | None:
    """The path of the browser, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path is not None), None)


class Opened:
    """A page that is open in a window of some width and colour scheme."""

    def __init__(self, browser, file: Path, width: int, scheme: str, height: int = 900):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.address = file.resolve().as_uri()
        self.page.on("console", lambda line: self.messages.append(f"{line.type}: {line.text}"))
        self.page.on("pageerror", lambda problem: self.messages.append(f"error: {problem}"))
        self.page.on("dialog", self._dialog)
        self.page.route("**/*", self._request)
        self.page.goto(self.address)

    def _dialog(self, dialog):
        self.messages.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _request(self, route):
        if route.request.url == self.address:
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def faults(browser, file: Path, *, width: int, scheme: str) -> list[str]:
    """The faults of a page: messages, requests, layout, contrasts, keyboard."""
    with Opened(browser, file, width, scheme) as opened:
        page = opened.page
        problems = [f"console: {line}" for line in opened.messages]
        problems += [f"request: {address}" for address in opened.requests]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append("the page scrolls sideways")
        if width > min(WIDTHS) and page.evaluate(BELOW):
            problems.append("the plot is below the first screen")
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        problems += page.evaluate(_script("look"), [LEAST_GRAPHIC, LEAST_TEXT])
        problems += axe_faults(opened)
        problems += _keyboard(page)
        return problems


def _keyboard(page) -> list[str]:
    """Check that Tab reaches every control, in order, with a visible focus."""
    count = page.evaluate(_script("listen"))
    for _ in range(count):
        page.keyboard.press("Tab")
    reached = page.evaluate("window.reached")
    problems = [f'the focus does not show on "{at["what"]}"' for at in reached if not at["seen"]]
    places = [at["place"] for at in reached]
    if places != list(range(count)):
        problems.append(f"Tab goes to {places}, not to all {count} in order")
    return problems


def axe_faults(opened: Opened) -> list[str]:
    """The violations that axe-core reports: contrasts, names, headings, tables, landmarks."""
    from axe_playwright_python.sync_playwright import Axe

    faults = Axe().run(opened.page).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {fault['nodes'][0]['html'][:120]}" for fault in faults
    ]


def hidden_mark(browser, file: Path, *, width: int, scheme: str) -> list[str]:
    """Where on the page the word PRIVATE is out of sight."""
    problems = []
    with Opened(browser, file, width, scheme, height=600) as opened:
        page = opened.page
        if "PRIVATE" not in page.title():
            problems.append("the title does not say PRIVATE")
        height = page.evaluate("document.documentElement.scrollHeight - innerHeight")
        for tenth in range(11):
            page.evaluate("(y) => scrollTo(0, y)", height * tenth / 10)
            if not page.evaluate(_script("banner")):
                problems.append(f"PRIVATE is not in sight at {10 * tenth}% of the page")
    return problems


def print_page(browser, file: Path, target: Path, paper: str = "A4") -> Path:
    """The page as PDF, as a printer would get it."""
    with Opened(browser, file, 1200, "dark") as opened:
        opened.page.pdf(path=str(target), format=paper, print_background=True)
    return target
