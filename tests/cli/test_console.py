"""What the command line shows while it works."""

import io

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from privalue.cli import _console as console


def shown(done, total, seconds):
    """The columns after so many seconds at a steady pace."""
    now = [0.0]
    bar = Progress(
        *(console._Count("{task.completed:,}"), TimeRemainingColumn()),
        console=Console(file=io.StringIO(), force_terminal=True),
        get_time=lambda: now[0],
        auto_refresh=False,
    )
    task = bar.add_task("Reading rows", total=total)
    for tenth in range(1, 11):
        now[0] = seconds * tenth / 10
        bar.update(task, completed=done * tenth // 10)
    return [str(column.render(bar.tasks[0])) for column in bar.columns]


def test_progress_tells_rate_and_time_left():
    count, left = shown(30_000_000, 120_000_000, 10.0)
    assert count.startswith("30,000,000/120,000,000, 3.")
    assert count.endswith(" million a second")
    assert left == "0:00:30"


def test_what_is_slow_or_unknown_is_counted_only():
    assert shown(7, 10, 10.0)[0] == "7/10"
    assert shown(0, None, 1.0)[0] == ""
    assert shown(2_000_000, None, 1.0)[0].startswith("2,000,000, ")


def test_what_goes_on_when_all_is_counted_is_said(monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(console, "log", screen)
    with console.progress("Reading rows", then="Computing") as update:
        update(10, 100)
        update(100, 100)
    assert "Computing" in screen.file.getvalue()


def test_nothing_is_printed_where_nobody_looks(monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(console, "log", screen)
    with console.progress("Reading rows") as update:
        update(10, 100)
    assert screen.file.getvalue() == ""
