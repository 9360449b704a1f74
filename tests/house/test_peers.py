"""The comparison with other libraries: its task, its arithmetic, its table. No library needed."""

import dataclasses
import importlib
import itertools
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # benchmarks is not installed

exchange = importlib.import_module("benchmarks.peers.exchange")
environments = importlib.import_module("benchmarks.peers.environments")
table = importlib.import_module("benchmarks.peers.table")
tasks = importlib.import_module("benchmarks.peers.task")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small task of each relation, and the folder with its files."""
    folder = tmp_path_factory.mktemp("task")
    chain = tasks.Question(
        title="A chain",
        world="chain:N=5,p=0.5,discount=0.9",
        trajectories=50,
        epsilon=0.1,
        delta=0.1,
        most_states=2,
    )
    keys = {"seed": 3, "releases": 7, "slow_releases": 2, "seconds": 60.0}
    return tasks.make_tasks(folder, question=chain, **keys), folder


def literal_visits(rows, discount, keep_last=False):
    """The slow twin: sum_k gamma^k r_{t+k} at each visit; the first one of a state is kept."""
    found = {}
    for t, (trajectory, state, _) in enumerate(rows):
        rest = [reward for other, _, reward in rows[t:] if other == trajectory]
        value = sum(discount**k * reward for k, reward in enumerate(rest))
        if keep_last or (trajectory, state) not in found:
            found[trajectory, state] = value
    return found


def fast_visits(rows, discount):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    found = tasks.first_visits(*columns, discount)
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, found[2].tolist(), strict=True))


class TestFirstVisits:
    def test_by_hand(self):
        rows = [(0, 2, 0.0), (0, 0, 1.0), (0, 2, 0.0), (0, 1, 2.0), (1, 2, 5.0), (1, 2, 1.0)]
        # backwards with gamma = 1/2: trajectory 0: 2, 1, 3/2, 3/4; trajectory 1: 1, 11/2
        expected = {(0, 2): 0.75, (0, 0): 1.5, (0, 1): 2.0, (1, 2): 5.5}
        assert fast_visits(rows, 0.5) == expected
        assert literal_visits(rows, 0.5) == expected
        assert literal_visits(rows, 0.5, keep_last=True) != expected  # a planted mistake shows

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0, 1)), min_size=1),
        st.sampled_from([0.5, 0.99, 1.0]),
    )
    def test_against_the_definition(self, rows, discount):
        rows = sorted(rows, key=lambda row: row[0])
        assert fast_visits(rows, discount) == pytest.approx(literal_visits(rows, discount))

    def test_their_means_are_what_we_compute_ourselves(self, made):
        task = made[0]["replace-one"]
        study = pv.Study(
            epsilon=1.0,
            delta=0.01,
            unit="trajectory",
            discount=task.discount,
            rewards=task.returns,
            returns=task.returns,
            unvisited=task.middle,
            states=task.states,
        )
        ours = pv.inspect(study, task.rows).private_fields()["mean_returns"]
        assert tasks.mean_returns(task) == pytest.approx(ours, abs=1e-8)


class TestTheTaskFile:
    def test_comes_back_as_it_was(self, made):
        for relation, task in made[0].items():
            assert exchange.Task.load(tasks.task_file(made[1], relation)) == task
            assert task.relation == relation
            assert len(task.visits) == task.states == 5
            assert task.most_states == 2

    def test_does_not_give_the_answer_away(self, made):
        exact = tasks.truth(made[1])
        for relation in exchange.RELATIONS:
            given_away = tasks.task_file(made[1], relation).read_text()
            assert not any(str(value) in given_away for value in exact[1:-1])

    def test_the_fingerprint_is_of_the_question_alone(self, made):
        task = made[0]["replace-one"]
        again = dataclasses.replace(task, releases=1, rows="elsewhere", seconds=1.0)
        assert again.fingerprint == task.fingerprint
        others = {"relation": "add-remove", "epsilon": 0.2, "seed": 4, "most_states": 5}
        for key, value in others.items():
            assert dataclasses.replace(task, **{key: value}).fingerprint != task.fingerprint


class TestBudgets:
    @given(st.floats(1e-3, 10), st.floats(1e-9, 0.5))
    def test_two_halves_make_a_whole(self, epsilon, delta):
        half, smaller = exchange.halved(epsilon, delta)
        assert 2 * half == epsilon
        assert delta * (1 - 1e-9) < (1 + math.exp(half)) * smaller <= delta * (1 + 1e-15)

    @given(st.floats(0.01, 10), st.floats(1e-9, 0.5))
    def test_zcdp_against_a_grid_of_orders(self, epsilon, delta):
        """The literal twin: the least delta over many orders."""
        rho = exchange.rho_of(epsilon, delta)
        orders = 1 + np.geomspace(1e-4, 1e7, 200_001)

        def implied(rho):
            logarithm = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders)
            return math.exp(min(0.0, float(np.min(logarithm - np.log(orders - 1)))))

        assert implied(rho) == pytest.approx(delta, rel=1e-4)
        assert implied(1.01 * rho) > delta  # a rho that is 1% too large is caught

    def test_zcdp_as_opendp_converts_it(self):
        """opendp 0.16.0: make_gaussian, make_zCDP_to_approxDP, make_fix_delta, least scale."""
        assert exchange.rho_of(0.1, 0.1) == pytest.approx(0.030516379885689077, rel=1e-6)


def change(relation, one, other, weight):
    """The norm by which the vector of sums and counts changes, literally, from its definition."""

    def contribution(visits):
        centred = [0.0 if value is None else value - 0.5 for value in visits]
        return np.array(centred + [0.0 if value is None else weight for value in visits])

    taken = contribution(one)
    return np.linalg.norm(taken if relation == "add-remove" else taken - contribution(other))


class TestVectorSensitivity:
    VISITS = tuple(itertools.product((None, 0.0, 0.3, 1.0), repeat=2))

    @pytest.mark.parametrize("relation", exchange.RELATIONS)
    def test_is_the_largest_change(self, relation):
        weight = exchange.count_weight(relation)
        largest = max(
            change(relation, *pair, weight) for pair in itertools.product(self.VISITS, repeat=2)
        )
        assert exchange.vector_sensitivity(relation, 2) == pytest.approx(largest)

    @pytest.mark.parametrize("relation", exchange.RELATIONS)
    def test_a_heavier_count_would_exceed_it(self, relation):
        weight = 1.01 * exchange.count_weight(relation)
        exceeded = [
            change(relation, *pair, weight) > exchange.vector_sensitivity(relation, 2) + 1e-9
            for pair in itertools.product(self.VISITS, repeat=2)
        ]
        assert any(exceeded)

    @pytest.mark.parametrize("relation", exchange.RELATIONS)
    def test_is_the_largest_change_where_few_states_count(self, relation):
        """Trajectories that count for one of two states each."""
        weight = exchange.count_weight(relation, everywhere=False)
        few = [pair for pair in self.VISITS if None in pair]

        def largest(weight):
            return max(change(relation, *pair, weight) for pair in itertools.product(few, repeat=2))

        given = exchange.vector_sensitivity(relation, 2, most=1)
        assert given == pytest.approx(largest(weight))
        assert largest(1.01 * weight) > given
        with pytest.raises(ValueError, match="H = 2 of 3 states"):
            exchange.vector_sensitivity(relation, 3, most=2)

    def test_scales_with_the_range(self):
        assert exchange.vector_sensitivity("replace-one", 9, width=4.0) == 12.0


class TestMeasuring:
    def variant(self, release, name="what"):
        return exchange.Variant(name=name, configuration="so", guarantee="native", release=release)

    def test_every_release_is_kept_and_timed(self, made):
        task = made[0]["add-remove"]
        numbers = itertools.count()
        measured = exchange.measure(task, self.variant(lambda: [next(numbers)] * task.states))
        assert measured["values"] == [[float(i)] * task.states for i in range(task.releases)]
        assert len(measured["seconds"]) == task.releases
        assert min(measured["seconds"]) >= 0

    def test_the_slow_stop_early(self, made):
        task = dataclasses.replace(made[0]["add-remove"], seconds=0.0)
        measured = exchange.measure(task, self.variant(lambda: [0.0] * task.states))
        assert len(measured["values"]) == task.slow_releases < task.releases

    def test_what_is_not_there_is_said(self, made):
        def refuse():
            raise exchange.NotAvailableError("not built yet")

        measured = exchange.measure(made[0]["add-remove"], self.variant(refuse))
        assert measured["not_available"] == "not built yet"
        assert "values" not in measured

    def test_a_missing_state_is_an_error(self, made):
        task = made[0]["add-remove"]
        with pytest.raises(ValueError, match="4 values were released for 5 states"):
            exchange.measure(task, self.variant(lambda: [0.0] * 4))

    def test_not_a_number_becomes_null(self, made):
        task = dataclasses.replace(made[0]["add-remove"], releases=1)
        released = [0.25, math.nan, math.inf, -math.inf, 0.5]
        measured = exchange.measure(task, self.variant(lambda: released))
        assert measured["values"] == [[0.25, None, None, None, 0.5]]

    def test_processor_time_is_that_of_descendants_too(self):
        busy = "import sys, time\nwhile time.process_time() < 0.6: pass\nsys.stdin.read()"
        nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
        before, own = exchange.cpu_seconds(), time.process_time()
        with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE) as process:
            while exchange.cpu_seconds() - before < 0.3:  # counted while it lives: it waits for us
                assert process.poll() is None
                time.sleep(0.02)
        assert exchange.cpu_seconds() - before > 0.6
        assert time.process_time() - own < exchange.cpu_seconds() - before

    def test_a_noisy_count_below_one_is_taken_for_one(self):
        assert exchange.means([3.0, -1.0, 2.0], [6.0, -4.0, 0.0], 0.5) == [1.0, -0.5, 2.5]


class TestErrors:
    def test_by_hand(self):
        exact = np.array([0.0, 1.0])
        releases = [[0.3, 0.6], [-7.0, 9.0], [None, 1.0]]
        expected = [math.sqrt((0.09 + 0.16) / 2), 0.0, math.sqrt(0.25 / 2)]
        assert table.errors(releases, exact, (0.0, 1.0)) == pytest.approx(expected)

    def test_rows_follow_the_values(self, made):
        """Nothing is typed: other values in the result give another row."""
        task, exact = made[0]["replace-one"], tasks.truth(made[1])

        def row(shift):
            values = [(exact + sign * shift).tolist() for sign in (0.0, 1.0)]
            variant = {"name": "n", "configuration": "c", "guarantee": "g", "load": 0.5}
            clocks = {"seconds": [3.0, 1.0], "cpu_seconds": [0.5, 0.7]}
            measured = {**variant, **clocks, "values": values}
            return table.rows("Somebody", {"variants": [measured]}, task, exact)[0]

        downwards = -0.02  # upwards would be clipped at the last state, whose value is 1
        assert row(downwards).error == pytest.approx(0.01)
        assert row(downwards).standard_error == pytest.approx(0.01)
        assert row(2 * downwards).error == pytest.approx(0.02)
        assert (row(0.0).seconds, row(0.0).cpu_seconds) == (2.0, pytest.approx(0.6))
        assert (row(0.0).releases, row(0.0).error) == (2, 0.0)

    def test_whoever_publishes_noisy_numbers_is_shrunk_afterwards(self, made):
        """A library's own values are one row, and what shrinkage makes of its numbers another."""
        task = dataclasses.replace(made[0]["replace-one"], releases=3)
        exact, generator = tasks.truth(made[1]), np.random.default_rng(5)

        def release():
            counts = 60 + 40 * generator.standard_normal(5)
            sums = 60 * (exact - 0.5) + 20 * generator.standard_normal(5)
            values = exchange.means(sums.tolist(), counts.tolist(), 0.5)
            return exchange.Noisy(
                values=values,
                sums=sums.tolist(),
                counts=counts.tolist(),
                sum_noise=20.0,
                count_noise=40.0,
            )

        keys = {"name": "by hand", "configuration": "so", "guarantee": "native"}
        measured = exchange.measure(task, exchange.Variant(release=release, **keys))
        own, drawn = table.rows("Somebody", {"variants": [measured]}, task, exact)
        assert (own.name, drawn.name) == ("by hand", "by hand, then our shrinkage")
        assert (drawn.releases, drawn.seconds) == (3, None)
        assert 0 < drawn.error < own.error

    def test_baselines(self, made):
        task, exact = made[0]["replace-one"], tasks.truth(made[1])
        plain, constant = table.baselines(task, exact, tasks.mean_returns(task))
        assert constant.error == pytest.approx(float(np.sqrt(np.mean((exact - 0.5) ** 2))))
        assert 0 < plain.error < constant.error


def rows_for_a_table():
    keys = {"relation": "replace-one", "configuration": "a | b", "guarantee": "native"}
    return [
        table.Row(who="B", name="later", error=0.02, standard_error=0.0004, seconds=12.3,
                  cpu_seconds=3.0, releases=20, load=1.25, **keys),
        table.Row(who="C", name="missing", reason="not built yet", **keys),
        table.Row(who="A", name="first", error=0.0101, seconds=0.034, releases=1, **keys),
    ]  # fmt: skip


class TestTable:
    def test_the_least_error_comes_first_whoever_it_is(self):
        assert [row.who for row in table.ranked(rows_for_a_table())] == ["A", "B", "C"]

    def test_markdown(self, made):
        part = ("A chain", made[0]["replace-one"], rows_for_a_table())
        text = table.markdown([part, part], {"A": {"a": "1.2"}})
        assert text.count("### A chain\n") == text.count("N = 5, H = 2, m = 50") == 2
        assert text.count("| A | first | a \\| b |") == 1
        assert "A: a 1.2." in text
        assert "load average up to 1.2." in text
        body = text[text.index("### replace-one") :].splitlines()
        assert body[4:7] == [
            "| A | first | 0.0101 | 0.034 |  | 1 | native |",
            "| B | later | 0.0200 ± 0.0004 | 12 | 3.0 | 20 | native |",
            "| C | missing | not run: not built yet |  |  |  | native |",
        ]
        assert "### add-remove" not in text

    def test_json_has_the_same_rows(self, made):
        found = rows_for_a_table()
        document = json.loads(table.as_json([("A chain", made[0]["replace-one"], found)], {}))
        assert [table.Row(**row) for row in document["tasks"][0]["rows"]] == found

    def test_between_the_markers_and_nowhere_else(self, tmp_path):
        page = tmp_path / "page.md"
        page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
        for _ in range(2):
            table.write_between_markers(page, "new")
        assert page.read_text() == f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n"
        page.write_text("no markers")
        with pytest.raises(ValueError, match="lacks the line"):
            table.write_between_markers(page, "new")

    def test_the_page_has_both_markers_and_a_table_for_each_relation(self):
        page = (ROOT / "docs" / "peers.md").read_text()
        inside = page[page.index(table.BEGIN) : page.index(table.END)]
        for relation in exchange.RELATIONS:
            assert f"### {relation}" in inside


class TestRunning:
    def test_the_script_of_a_library_from_task_to_result(self, made, tmp_path):
        """Ours runs as the others do: a process, a task file, a result file."""
        task = dataclasses.replace(made[0]["replace-one"], releases=2, epsilon=1.0)
        source, target = tmp_path / "task.json", tmp_path / "result.json"
        task.save(source)
        environments.run(
            "ours", environments.interpreter("ours", tmp_path), source, target, timeout=300
        )
        result = json.loads(target.read_text())
        assert result["fingerprint"] == task.fingerprint
        assert result["versions"]["privalue"] == pv.__version__
        found = table.rows("privalue", result, task, tasks.truth(made[1]))
        assert found[0].name == "DP-LSW"
        assert found[0].releases == 2
        assert found[0].error > 0

    def test_a_failure_is_told_in_one_line(self, tmp_path):
        python = environments.interpreter("ours", tmp_path)
        absent, target = tmp_path / "absent.json", tmp_path / "result.json"
        with pytest.raises(environments.PeerError, match=r"its script failed \(1\): FileNotFound"):
            environments.run("ours", python, absent, target, timeout=300)
        assert not target.exists()

    def test_every_library_has_a_script_and_pins(self):
        for peer in environments.PEERS.values():
            assert (ROOT / (peer.module.replace(".", "/") + ".py")).is_file()
            assert all("==" in requirement for requirement in peer.requirements)
