"""``python -m benchmarks.peers --peers pipelinedp opendp ours --releases 100``.

Prints the table as Markdown, and writes it with its JSON into ``--folder``. Results of earlier
runs are kept, and shown, until ``--fresh``.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import table
from benchmarks.peers.environments import PEERS, ROOT, PeerError, interpreter, run
from benchmarks.peers.exchange import RELATIONS, Task, say
from benchmarks.peers.table import Row
from benchmarks.peers.task import QUESTIONS, make_tasks, mean_returns, task_file, truth

PAGE = ROOT / "docs" / "peers.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--relations", nargs="+", choices=RELATIONS, default=list(RELATIONS))
    parser.add_argument("--releases", type=int, default=100, help="for each configuration")
    parser.add_argument(
        "--slow-releases", type=int, default=20, help="for those that use up --seconds"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for each configuration")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for each script")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated trajectories")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / ".cache")
    parser.add_argument("--environments", type=Path, help="default: FOLDER/environments")
    parser.add_argument("--python", default=sys.executable, help="makes the environments")
    parser.add_argument("--fresh", action="store_true", help="measure the --peers again")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the table into docs/peers.md"
    )
    options = parser.parse_args()
    if options.releases < 1 or options.slow_releases < 1:
        parser.error("--releases and --slow-releases must be at least 1")
    return options


def load_result(path: Path, task: Task) -> dict[str, Any] | None:
    """An earlier result for the same question, if there is one."""
    if not path.is_file():
        return None
    result: dict[str, Any] = json.loads(path.read_text())
    return result if result["fingerprint"] == task.fingerprint else None


def main() -> int:
    options = arguments()
    folder = options.folder.resolve()
    (folder / "results").mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")  # the folder keeps itself out of the repository
    environments = (options.environments or folder / "environments").resolve()
    parts: list[tuple[str, Task, list[Row]]] = []
    versions: dict[str, dict[str, str]] = {}
    failed = False
    for key, question in QUESTIONS.items():
        say(f"{question.title}: simulating")
        place = folder / "task" / key
        tasks = make_tasks(
            place,
            seed=options.seed,
            releases=options.releases,
            slow_releases=min(options.slow_releases, options.releases),
            seconds=options.seconds,
            question=question,
        )
        exact, rows = truth(place), list[Row]()
        for relation, task in tasks.items():
            rows += table.baselines(task, exact, mean_returns(task))
            for name, peer in PEERS.items():
                path = folder / "results" / f"{key}.{name}.{relation}.json"
                is_selected = (
                    name in options.peers
                    and relation in options.relations
                    and key in options.questions
                )
                if is_selected and (options.fresh or load_result(path, task) is None):
                    say(f"{peer.label}, {relation}")
                    path.unlink(missing_ok=True)
                    try:
                        python = interpreter(name, environments, options.python)
                        source = task_file(place, relation)
                        run(name, python, source, path, timeout=options.timeout)
                    except PeerError as problem:
                        failed = True
                        say(f"{peer.label}: {problem}")
                        rows.append(table.unmeasured(peer.label, relation, str(problem)))
                        continue
                result = load_result(path, task)
                if result is not None:
                    rows += table.rows(peer.label, result, task, exact)
                    versions[peer.label] = result["versions"]
        if any(row.who != "-" for row in rows):  # some library has run
            parts.append((question.title, next(iter(tasks.values())), rows))
    text = table.markdown(parts, versions)
    print(text)
    (folder / "peers.md").write_text(text + "\n")
    (folder / "peers.json").write_text(table.as_json(parts, versions))
    if options.write_docs:
        table.write_between_markers(PAGE, text)
        say(f"{PAGE.relative_to(ROOT)} has the table")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
