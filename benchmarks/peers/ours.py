"""privalue itself, through its public interface, from the rows: first visits are its own work."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet

import privalue as pv
from benchmarks.peers import exchange
from benchmarks.peers.exchange import NotAvailableError, Task, Variant

MECHANISMS: dict[str, tuple[dict[str, Any], bool]] = {  # name: mechanism's keys, with the prior?
    "DP-LSW": ({"name": "dp-lsw"}, False),
    "DP-LSL, ridge 100 sqrt(m)": ({"name": "dp-lsl"}, False),
    "DP-LSL, ridge sqrt(m)": ({"name": "dp-lsl", "ridge_scale": 1.0}, False),
    "DP-SSP, plain": ({"name": "dp-ssp", "stages": "one", "shrinkage": False}, False),
    "DP-SSP, one stage": ({"name": "dp-ssp", "stages": "one"}, False),
    "as it comes": ({}, False),
    "as it comes, prior": ({}, True),
}


def study(task: Task, mechanism: dict[str, Any], prior: bool) -> pv.Study:
    visits = {"visits": {str(s): p for s, p in enumerate(task.visits)}} if prior else {}
    return pv.Study(
        study=pv.About(name="peers", trajectories=task.trajectories),
        privacy=pv.Privacy(
            epsilon=task.epsilon,
            delta=task.delta,
            unit="trajectory",
            neighbours=task.relation,
            max_states_per_trajectory=task.most_states if task.most_states < task.states else None,
        ),
        values=pv.Values(discount=task.discount, rewards=task.returns, returns=task.returns),
        states=pv.States(count=task.states, **visits),
        mechanism=pv.Mechanism(**mechanism),
    )


def releasing(
    task: Task, rows: Any, mechanism: dict[str, Any], prior: bool
) -> Callable[[], list[float]]:
    """One release after the other, from one seeded stream."""
    entropy = pv.SeededForExperimentsOnly(task.seed)

    def release() -> list[float]:
        try:
            released = pv.release(
                study(task, mechanism, prior),
                rows,
                entropy=entropy,
                accept_large_delta=True,
                accept_useless=True,
            )
        except pv.StudyError as problem:
            raise NotAvailableError(str(problem)) from None
        by_state = released.as_dict()
        return [by_state[str(s)] for s in range(task.states)]

    return release


def variants(task: Task) -> Iterator[Variant]:
    rows = pyarrow.parquet.read_table(task.rows)
    for name, (mechanism, prior) in MECHANISMS.items():
        keys = ", ".join(f"{key}={value!r}" for key, value in mechanism.items())
        yield Variant(
            name=name,
            configuration=f"Mechanism({keys})" + (", visits = the exact p_s" if prior else ""),
            guarantee="native",
            release=releasing(task, rows, mechanism, prior),
        )


if __name__ == "__main__":
    exchange.main(("privalue", "numpy", "numba"), variants)
