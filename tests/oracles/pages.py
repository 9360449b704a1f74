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
LEAST_CONTRAST, LEAST_GRAPHIC, LEAST_TEXT = 4.5, 3.0, 11.0


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


def faults(browser, file: Path, *, width: int, scheme: str, axe: bool = True) -> list[str]:
    """Everything that is wrong with a page; nothing, if it is as it should be."""
    with Opened(browser, file, width, scheme) as opened:
        page = opened.page
        found = [f"console: {line}" for line in opened.heard]
        found += [f"request: {address}" for address in opened.asked]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append("the page scrolls sideways")
        found += page.evaluate(_LOOK, [LEAST_CONTRAST, LEAST_GRAPHIC, LEAST_TEXT])
        found += page.evaluate(_STRUCTURE)
        found += _names(opened)
        found += axe_faults(opened) if axe else []
        found += _keyboard(page)
        return found


_LOOK = """
([leastContrast, leastGraphic, leastText]) => {
  const found = new Set();
  const channels = (text) => {
    const numbers = text.match(/[0-9.]+/g).map(Number);
    return [numbers[0], numbers[1], numbers[2], numbers.length > 3 ? numbers[3] : 1];
  };
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((x) => x / 255)
      .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
      if (colour[3] !== 0) found.add(`a background that shines through: ${at.className}`);
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || ["STYLE", "SCRIPT"].includes(element.tagName))
      continue;
    texts += 1;
    const style = getComputedStyle(element);
    const drawn = element.ownerSVGElement;
    const ratio = contrast(channels(drawn ? style.fill : style.color), behind(element));
    if (ratio < leastContrast)
      found.add(`contrast ${ratio.toFixed(2)} of "${text.slice(0, 30)}"`);
    const size = parseFloat(style.fontSize) * (drawn ? element.getScreenCTM().a : 1);
    const raised = element.tagName === "SUP";
    if (size < leastText && !raised)
      found.add(`"${text.slice(0, 30)}" is ${size.toFixed(1)} pixels high`);
  }
  if (texts < 20) found.add(`only ${texts} texts are visible`);
  for (const mark of document.querySelectorAll("svg .pv-value, svg .pv-total, svg .pv-bound,"
      + "svg .pv-arrow, .bar i, .bar")) {
    if (!mark.checkVisibility()) continue;
    const style = getComputedStyle(mark);
    const drawn = mark.tagName === "line" ? [style.stroke]
      : mark.ownerSVGElement ? [style.fill, style.stroke]
      : mark.className ? [style.boxShadow.match(/rgb[^)]*[)]/)[0]] : [style.backgroundColor];
    const seen = drawn.filter((c) => c.startsWith("rgb")).map(channels);
    const best = Math.max(...seen.map((c) => contrast(c, behind(mark.parentElement))));
    if (best < leastGraphic)
      found.add(`contrast ${best.toFixed(2)} of what is drawn as ${mark.classList}`);
  }
  return [...found];
}
"""

_STRUCTURE = """
() => {
  const found = [];
  const count = (what) => document.querySelectorAll(what).length;
  for (const [what, times] of [["main", 1], ["body > header", 1], ["nav", 1], ["body > footer", 1],
                               ["h1", 1]])
    if (count(what) !== times) found.push(`${count(what)} of ${what}, not ${times}`);
  if (!document.title.trim()) found.push("there is no title");
  if (!document.documentElement.lang) found.push("there is no language");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) found.push(`h${own} after h${level}: ${heading.textContent}`);
    level = own;
  }
  for (const cell of document.querySelectorAll("th"))
    if (!cell.scope) { found.push(`a heading without scope: ${cell.textContent}`); break; }
  for (const table of document.querySelectorAll("table"))
    if (!table.caption?.textContent.trim()) found.push("a table without a caption");
  for (const box of document.querySelectorAll("body *")) {
    const style = getComputedStyle(box);
    const scrolls = ["auto", "scroll"].includes(style.overflowX)
      && (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1);
    if (scrolls && box.tabIndex < 0) found.push(`a box that no key scrolls: ${box.className}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`two of #${id}`);
  for (const link of document.querySelectorAll("a[href^='#']"))
    if (!ids.includes(link.hash.slice(1))) found.push(`a link to nowhere: ${link.hash}`);
  return found;
}
"""

NAMED = {"img", "image", "table", "region", "navigation", "link", "heading", "RootWebArea"}
PRESENT = {"main", "navigation", "banner", "contentinfo", "heading", "link", "image", "table"}


def _names(opened: Opened) -> list[str]:
    """What a screen reader finds without a name, or does not find."""
    session = opened.context.new_cdp_session(opened.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    heard = [node for node in nodes if not node.get("ignored")]
    roles = [node["role"]["value"] for node in heard]
    found = [
        f"a {role} has no name"
        for role, node in zip(roles, heard, strict=True)
        if role in NAMED and not node.get("name", {}).get("value", "").strip()
    ]
    # The tree speaks of images as "image"; an older one may say "img".
    known = {"image" if role == "img" else role for role in roles}
    return found + [f"no {role} is announced" for role in sorted(PRESENT - known)]


_LISTEN = """
() => {
  const usable = "a[href], button, input, select, summary, [tabindex='0']";
  const all = [...document.querySelectorAll(usable)].filter((element) => element.checkVisibility());
  window.reached = [];
  document.addEventListener("focusin", ({ target }) => {
    const style = getComputedStyle(target);
    const box = target.getBoundingClientRect();
    const ring = target.querySelector(".pv-hit");  // rows of a plot show it around themselves
    const width = ring ? getComputedStyle(ring).strokeWidth : style.outlineWidth;
    window.reached.push({
      place: all.indexOf(target),
      what: (target.textContent || target.className.toString()).trim().slice(0, 30),
      seen: (ring ? getComputedStyle(ring).stroke : style.outlineStyle) !== "none"
        && parseFloat(width) >= 2 && box.right > 0 && box.left < innerWidth,
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
    """What axe-core finds, but for what it calls minor."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(opened.page).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {fault['nodes'][0]['html'][:120]}"
        for fault in found
        if fault["impact"] in {"moderate", "serious", "critical"}
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
