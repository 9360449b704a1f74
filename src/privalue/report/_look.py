"""Define how pages look: a style sheet for light, dark, screen and paper, and their frame.

The style is part of every page, so that a page is one file, to mail, print and archive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from privalue.report._html import Content, Html, element, named

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --sheet: #f4f6f8; --ink: #17212b; --soft: #4a5866; --line: #d3dae1;
  --accent: #0b5c8a; --accent-soft: #dcebf5; --mark: #084f78; --interval: #5b98c0;
  --second: #a35a00; --third: #2c7a51; --bound: #6b7885;
  --warn-paper: #fff4dc; --warn-ink: #6b4200; --warn-line: #d99a1c;
  --stop-paper: #b3141d; --stop-ink: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11171d; --sheet: #1a232c; --ink: #e8edf2; --soft: #adb9c5; --line: #35424f;
    --accent: #7cc0ea; --accent-soft: #17344a; --mark: #a8daf8; --interval: #3f7ba3;
    --second: #f0a851; --third: #6cc596; --bound: #93a1ae;
    --warn-paper: #33270c; --warn-ink: #f5d489; --warn-line: #a97a1a;
    --stop-paper: #b3141d; --stop-ink: #ffffff;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word;
}
.wrap { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header.top { background: var(--sheet); border-bottom: 1px solid var(--line);
  padding: 2rem 0 1.5rem; }
h1 { font-size: clamp(1.6rem, 1.1rem + 2.2vw, 2.4rem); line-height: 1.15; margin: 0 0 .5rem;
  letter-spacing: -.015em; overflow-wrap: anywhere; }
h2 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .75rem; letter-spacing: -.01em; }
h3 { font-size: 1.08rem; margin: 1.75rem 0 .5rem; }
p, ul, ol { margin: 0 0 .9rem; max-width: 46rem; }
li { margin: .3rem 0; }
a { color: var(--accent); text-underline-offset: .15em; }
a:focus-visible, [tabindex]:focus-visible, summary:focus-visible {
  outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
bdi { overflow-wrap: anywhere; }
.kicker { color: var(--soft); margin: 0 0 .4rem; font-size: .95rem; }
.lead { font-size: 1.12rem; max-width: 48rem; margin: .75rem 0 0; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem 1rem; z-index: 9; }
nav { border-bottom: 1px solid var(--line); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: .7rem 0;
  margin: 0; max-width: none; font-size: .93rem; }
nav li { margin: 0; }
nav a { display: inline-block; padding: .2rem 0; }
main section { padding: 2rem 0 1.25rem; border-bottom: 1px solid var(--line); }
main section:last-child { border-bottom: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .9rem;
  margin: 1.25rem 0 0; padding: 0; }
.tiles > div { background: var(--paper); border: 1px solid var(--line); border-radius: .5rem;
  padding: .8rem 1rem; min-width: 0; }
.tiles dt { font-size: .85rem; color: var(--soft); }
.tiles dd { margin: .15rem 0 0; font-size: 1.2rem; font-weight: 600; line-height: 1.3;
  overflow-wrap: anywhere; }
.tiles dd small { display: block; font-size: .84rem; font-weight: 400; color: var(--soft); }
.formula { background: var(--sheet); border-left: 4px solid var(--accent); padding: .8rem 1rem;
  margin: 0 0 1rem; font-family: Georgia, "Times New Roman", serif; font-size: 1.08rem;
  overflow-x: auto; }
.formula small { display: block; margin-top: .4rem; color: var(--soft);
  font-family: system-ui, sans-serif; font-size: .88rem; }
.note { background: var(--warn-paper); color: var(--warn-ink);
  border-left: 4px solid var(--warn-line); padding: .7rem 1rem; margin: 0 0 1rem;
  max-width: 46rem; }
.note p:last-child { margin: 0; }
.flag { display: inline-block; background: var(--warn-paper); color: var(--warn-ink);
  border: 1px solid var(--warn-line); border-radius: .8rem; padding: 0 .55rem; font-size: .84rem;
  white-space: nowrap; }
.flag + .flag { margin-left: .25rem; }
.banner { background: var(--stop-paper); color: var(--stop-ink); font-weight: 700;
  padding: .55rem 1.25rem; text-align: center; }
.banner span { font-weight: 400; }
.private .banner { position: sticky; top: 0; z-index: 5; }
.private { scroll-padding-top: 4rem; }
.scroll { overflow: auto; border: 1px solid var(--line); border-radius: .4rem; margin: 0 0 1.1rem; }
.scroll.long { max-height: 27rem; }
.scroll.small { width: fit-content; max-width: min(100%, 46rem); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; background: var(--paper); }
caption { text-align: left; padding: .6rem .8rem; color: var(--soft); font-size: .88rem; }
caption span { display: block; position: sticky; left: .8rem;
  max-width: min(58rem, calc(100vw - 4.5rem)); }
th, td { text-align: left; vertical-align: top; padding: .38rem .8rem;
  border-top: 1px solid var(--line); }
thead th { background: var(--sheet); color: var(--ink); font-weight: 600; position: sticky; top: 0;
  white-space: nowrap; }
tbody th { font-weight: 500; }
tbody th bdi { display: inline-block; max-width: 16rem; overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts th { width: 34%; color: var(--soft); font-weight: 500; }
.facts td { overflow-wrap: anywhere; }
code, .hash { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .88em;
  overflow-wrap: anywhere; }
figure { margin: 0 0 1.1rem; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .35rem; max-width: 46rem; }
svg { display: block; width: 100%; height: auto; }
svg.narrow { display: none; }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif;
  font-size: 13px; fill: var(--soft); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--bound); stroke-width: 1; }
svg .bound { stroke: var(--bound); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .interval { stroke: var(--interval); }
svg .area { fill: var(--interval); }
svg .value { fill: var(--mark); }
svg .middle { stroke: var(--mark); }
svg .doubtful { fill: var(--paper); stroke: var(--second); stroke-width: 2; }
svg .second { fill: var(--second); }
svg .third { fill: var(--third); }
svg .rest { fill: var(--line); stroke: var(--bound); stroke-width: 1; }
svg .strong { fill: var(--ink); }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0;
  margin: 0 0 .4rem; font-size: .88rem; color: var(--soft); max-width: none; }
.key svg { display: inline-block; width: 1.5rem; height: .9rem; vertical-align: -.08rem;
  margin-right: .35rem; }
.sign { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr));
  gap: 1.6rem 2rem; margin: 1.6rem 0 .5rem; }
.sign div { border-top: 1px solid var(--ink); padding-top: .3rem; color: var(--soft);
  font-size: .88rem; margin-top: 1.6rem; }
footer { border-top: 1px solid var(--line); background: var(--sheet); color: var(--soft);
  padding: 1.1rem 0 2rem; font-size: .88rem; }
footer p { max-width: none; margin: .2rem 0; }
@media (max-width: 40rem) {
  .wrap { padding: 0 1rem; }
  svg.wide { display: none; }
  svg.narrow { display: block; }
  th, td, caption { padding-left: .6rem; padding-right: .6rem; }
  .facts th { width: 40%; }
  thead th, thead th.number { white-space: normal; }
  tbody th bdi { max-width: 9rem; }
}
@media print {
  :root {
    --paper: #ffffff; --sheet: #ffffff; --ink: #000000; --soft: #333333; --line: #bbbbbb;
    --accent: #0b4a70; --mark: #084f78; --interval: #5b98c0; --second: #8a4c00; --third: #1e6a43;
    --bound: #666666; --warn-paper: #ffffff; --warn-ink: #000000; --warn-line: #8a6000;
  }
  @page { margin: 16mm 15mm 18mm; }
  body { font-size: 10pt; }
  nav, .skip { display: none; }
  header.top { padding: 0 0 4mm; }
  main section { padding: 5mm 0 2mm; }
  .wrap { max-width: none; padding: 0; }
  .scroll, .scroll.long { overflow: visible; max-height: none; border: 0; }
  thead { display: table-header-group; }
  thead th { position: static; }
  .flag { white-space: normal; }
  tr, figure, .tiles > div, .formula, .note, .sign { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
  caption span { position: static; max-width: none; }
  svg.wide { display: block; }
  svg.narrow { display: none; }
  a { color: inherit; text-decoration: none; }
  .banner, .private .banner { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

# A fixed element is printed on every sheet of paper; the padding keeps the content beside it.
# Browsers that support boxes in the margin print those, too.
PRIVATE_STYLE = """
@media print {
  @page {
    @top-center { content: "PRIVATE: for the curator only"; font: bold 11pt sans-serif;
      color: #b3141d; }
    @bottom-center { content: "PRIVATE: none of this may be published"; font: bold 9pt sans-serif;
      color: #b3141d; } }
  .private .banner { position: fixed; top: 0; bottom: 0; left: 0; width: 7mm; padding: 0;
    line-height: 7mm; font-size: 9pt; writing-mode: vertical-rl; }
  .private body { padding-left: 11mm; }
}
"""


@dataclass(frozen=True, kw_only=True)
class PagePart:
    """A section of a page: its key is the anchor, ``short`` its name in the list of contents."""

    key: str
    title: str
    content: Content
    short: str = ""  # for the list of contents

    def html(self) -> Html:
        """Return the section as HTML, named by its heading."""
        heading = f"{self.key}-title"
        return element(
            "section",
            element("div", element("h2", self.title, id=heading), self.content, class_="wrap"),
            id=self.key,
            aria_labelledby=heading,
        )


def page(
    *,
    title: str,
    kicker: str,
    name: str,
    top: Content,
    parts: Sequence[PagePart],
    foot: Content,
    banner: Content = None,
    meta: Content = None,
    private: bool = False,
) -> str:
    """Return a whole page that loads nothing: no script, no font, no figure from elsewhere.

    Args:
        title: of the window.
        kicker: the line above the heading.
        name: the heading.
        top: what follows the heading.
        parts: the sections, which are also listed as contents.
        foot: the end of the page.
        banner: a warning above everything; None for no warning.
        meta: an element for the head; None for none.
        private: whether every sheet says PRIVATE.

    Returns:
        The HTML document.
    """
    links = [element("li", element("a", p.short or p.title, href=f"#{p.key}")) for p in parts]
    body = [
        element("a", "Skip to the content", class_="skip", href="#content"),
        banner
        and element(
            "div",
            banner,
            class_="banner",
            role="region",
            aria_label="PRIVATE" if private else "NOT PRIVATE",
        ),
        element(
            "header",
            element(
                "div",
                element("p", kicker, class_="kicker"),
                element("h1", named(name)),
                top,
                class_="wrap",
            ),
            class_="top",
        ),
        element("nav", element("ul", links, class_="wrap"), aria_label="Contents"),
        element("main", [part.html() for part in parts], id="content"),
        element("footer", element("div", foot, class_="wrap")),
    ]
    head = [
        element("meta", charset="utf-8"),
        meta,
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # With this policy even an error in this module could load nothing.
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
            "form-action 'none'",
        ),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(STYLE + (PRIVATE_STYLE if private else ""))),
    ]
    return "<!DOCTYPE html>\n" + element(
        "html",
        "\n",
        element("head", head),
        "\n",
        element("body", body),
        "\n",
        lang="en",
        class_="private" if private else None,
    )
