"""A page as people meet it, in a real browser: what is wrong with it, in words.

Nothing is asked of the network: every request but the page itself is recorded and refused.
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


def chromium() -> str | None:
    """Where the browser is, if anywhere."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path is not None), None)


class Opened:
    """A page that is open in a window of some width and colour scheme."""

    def __init__(self, browser, file: Path, width: int, scheme: str, height: int = 900):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.address = file.resolve().as_uri()
        self.page.on("console", lambda said: self.heard.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda problem: self.heard.append(f"error: {problem}"))
        self.page.on("dialog", self._dialog)
        self.page.route("**/*", self._request)
        self.page.goto(self.address)

    def _dialog(self, dialog):
        self.heard.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _request(self, route):
        if route.request.url == self.address:
            route.continue_()
        else:
            self.asked.append(route.request.url)
            route.abort()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def faults(browser, file: Path, *, width: int, scheme: str) -> list[str]:
    """Everything that is wrong with a page; nothing, if it is as it should be."""
    with Opened(browser, file, width, scheme) as opened:
        page = opened.page
        found = [f"console: {line}" for line in opened.heard]
        found += [f"request: {address}" for address in opened.asked]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append("the page scrolls sideways")
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        found += page.evaluate(_LOOK, [LEAST_GRAPHIC, LEAST_TEXT])
        found += axe_faults(opened)
        found += _keyboard(page)
        return found


_LOOK = """
([leastGraphic, leastText]) => {
  const found = new Set();
  const channels = (text) => text.match(/[0-9.]+/g).map(Number);
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((x) => x / 255)
      .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = channels(getComputedStyle(document.body).backgroundColor);
  for (const mark of document.querySelectorAll(".plot .line, .plot .dot")) {
    const style = getComputedStyle(mark);
    const drawn = mark.classList.contains("line") || parseFloat(style.borderTopWidth)
      ? style.borderTopColor : style.backgroundColor;
    const ratio = contrast(channels(drawn), paper);
    if (ratio < leastGraphic) found.add(`contrast ${ratio.toFixed(2)} of a ${mark.className}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.tagName === "SUP") continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < leastText) found.add(`"${text.slice(0, 30)}" is ${size.toFixed(1)} pixels high`);
  }
  return [...found];
}
"""


_LISTEN = """
() => {
  const usable = "a[href], button, input, select, summary, [tabindex='0']";
  const all = [...document.querySelectorAll(usable)].filter((element) => element.checkVisibility());
  window.reached = [];
  document.addEventListener("focusin", ({ target }) => {
    const style = getComputedStyle(target);
    const box = target.getBoundingClientRect();
    window.reached.push({
      place: all.indexOf(target),
      what: (target.textContent || target.className.toString()).trim().slice(0, 30),
      seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
        && box.right > 0 && box.left < innerWidth,
    });
  });
  return all.length;
}
"""


def _keyboard(page) -> list[str]:
    """Whether Tab goes to everything that can be used, in order, and shows where it is."""
    wanted = page.evaluate(_LISTEN)
    for _ in range(wanted):
        page.keyboard.press("Tab")
    reached = page.evaluate("window.reached")
    found = [f'the focus does not show on "{at["what"]}"' for at in reached if not at["seen"]]
    places = [at["place"] for at in reached]
    if places != list(range(wanted)):
        found.append(f"Tab goes to {places}, not to all {wanted} in order")
    return found


def axe_faults(opened: Opened) -> list[str]:
    """What axe-core finds: contrasts, names, headings, tables, landmarks."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(opened.page).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {fault['nodes'][0]['html'][:120]}" for fault in found
    ]


def hidden_mark(browser, file: Path, *, width: int, scheme: str) -> list[str]:
    """Where on the page the word PRIVATE is not in sight."""
    found = []
    with Opened(browser, file, width, scheme, height=600) as opened:
        page = opened.page
        if "PRIVATE" not in page.title():
            found.append("the title does not say PRIVATE")
        whole = page.evaluate("document.documentElement.scrollHeight - innerHeight")
        for tenth in range(11):
            page.evaluate("(y) => scrollTo(0, y)", whole * tenth / 10)
            if not page.evaluate(_BANNER):
                found.append(f"PRIVATE is not in sight at {10 * tenth}% of the page")
    return found


_BANNER = """
() => {
  const banner = document.querySelector(".banner");
  if (!banner || !banner.innerText.includes("PRIVATE")) return false;
  const box = banner.getBoundingClientRect();
  if (box.top < 0 || box.bottom > innerHeight || box.height < 15) return false;
  const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return banner.contains(there);
}
"""


def printed(browser, file: Path, target: Path, paper: str = "A4") -> Path:
    """The page as PDF, as a printer would get it."""
    with Opened(browser, file, 1200, "dark") as opened:
        opened.page.pdf(path=str(target), format=paper, print_background=True)
    return target
