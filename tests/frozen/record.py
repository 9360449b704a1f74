"""What is kept of a study: its release, what its curator sees, and the text of both pages.

| file                | holds                                                                    |
|---------------------|--------------------------------------------------------------------------|
| ``NAME.release.json`` | the text of ``release.json``, less what names a day, a version or Terms |
| ``NAME.private.json`` | statistics, estimates before noise, psi and sigma, of *made-up* people  |
| ``NAME.txt``        | the words of the public page and of the curator's, less day and version  |

Numbers are written so that reading them gives the same double.
"""

import json
import re
import tempfile
import textwrap
import warnings
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import privalue as pv
from frozen.studies import Frozen

KEPT = Path(__file__).parent / "kept"
LEFT_OUT = ("schema_version", "created", "software", "terms")
PAGES = ("PUBLIC PAGE", "PRIVATE PAGE")


# The one place that looks inside the package: where something moves, this moves with it.


def _private_page(diagnostics: pv.Diagnostics) -> str:
    """The curator's page, which only ``privalue inspect --page`` writes, and only of files."""
    from privalue.report._private_page import private_page

    return private_page(diagnostics)


def _return_steps(diagnostics: pv.Diagnostics) -> list[int]:
    """The sums of returns in steps of the grid: whole numbers."""
    return diagnostics.statistics.return_steps.tolist()


@dataclass(frozen=True)
class Record:
    """What one study gave."""

    release: str
    private: dict[str, Any]
    pages: dict[str, list[str]]  # words

    def save(self, name: str, folder: Path = KEPT) -> None:
        write = {
            "release.json": self.release,
            "private.json": json.dumps(self.private, indent=0) + "\n",
            "txt": "\n\n".join(f"{title}\n{_wrapped(words)}" for title, words in self.pages.items())
            + "\n",
        }
        for ending, text in write.items():
            (folder / f"{name}.{ending}").write_text(text, encoding="utf-8", newline="")

    @classmethod
    def load(cls, name: str, folder: Path = KEPT) -> "Record":
        def text(ending: str) -> str:
            return (folder / f"{name}.{ending}").read_bytes().decode()

        public, private = text("txt").split(f"\n\n{PAGES[1]}\n")
        words = (public.removeprefix(f"{PAGES[0]}\n").split(), private.split())
        return cls(
            text("release.json"),
            json.loads(text("private.json")),
            dict(zip(PAGES, words, strict=True)),
        )


def recorded(frozen: Frozen) -> Record:
    """Goes through a study as a user would: inspect, release, publish."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.PrivalueWarning)  # they are small, and say so
        folder = Path(made)
        study, data = frozen.study(folder), frozen.data(folder)
        diagnostics = pv.inspect(study, data, engine=frozen.engine)
        release = pv.release(
            study,
            data,
            entropy=pv.SeededForExperimentsOnly(frozen.seed),
            engine=frozen.engine,
            accept_useless=True,
            accept_large_delta=True,
        )
        published = pv.publish(release, folder / "out", study=study)
        return Record(
            release_text(release.to_json()),
            {**diagnostics.private_fields(), "return_steps": _return_steps(diagnostics)},
            {
                PAGES[0]: page_words(
                    published.page.read_text(encoding="utf-8"),
                    day=release.created,
                    sha256=release.sha256,
                ),
                PAGES[1]: page_words(_private_page(diagnostics), day=release.created),
            },
        )


def release_text(text: str) -> str:
    """The text of a release without the keys of ``LEFT_OUT``, every other byte as it stands."""
    parts = re.split(r'^(?=  ")', text.strip().removeprefix("{\n").removesuffix("\n}"), flags=re.M)
    kept = [
        part.rstrip().removesuffix(",")
        for part in parts
        if part and re.match(r'  "(\w+)"', part)[1] not in LEFT_OUT
    ]
    made = "{\n" + ",\n".join(kept) + "\n}\n"
    whole = json.loads(text)
    if json.loads(made) != {key: whole[key] for key in whole if key not in LEFT_OUT}:
        raise AssertionError("release.json is not written a key a line any more: see release_text")
    return made


class _Words(HTMLParser):
    """Whatever is not a tag; a tag separates words. Plots have the numbers of tables again."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, _: Any) -> None:
        self._hidden += tag in {"style", "script", "svg"}

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"style", "script", "svg"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.found += data.split()


def page_words(html: str, *, day: str, sha256: str = "SHA256") -> list[str]:
    """The words of a page; day, version and the hash of the whole release.json only by name."""
    parser = _Words()
    parser.feed(html)
    parser.close()
    text = " ".join(parser.found)
    text = text.replace(sha256, "SHA256").replace(day, "DAY")
    return text.replace(f"privalue {pv.__version__}", "privalue VERSION").split()


def _wrapped(words: list[str]) -> str:
    return textwrap.fill(" ".join(words), 100, break_long_words=False, break_on_hyphens=False)
