"""privalue itself, through its public interface, from the rows: first visits are its own work."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet

import privalue as pv
from benchmarks.peers import exchange
from benchmarks.peers.exchange import NotAvailableError, Task, Variant

MECHANISMS: dict[str, tuple[dict[str, Any], bool]] = {  # name: keywords, with the prior?
    "DP-LSW": ({"mechanism": "dp-lsw"}, False),
    "DP-LSL, ridge 100 sqrt(m)": ({"mechanism": "dp-lsl"}, False),
    "DP-LSL, ridge sqrt(m)": ({"mechanism": "dp-lsl", "ridge_scale": 1.0}, False),
    "DP-SSP, plain": ({"mechanism": "dp-ssp", "stages": "one", "shrinkage": False}, False),
    "DP-SSP, one stage": ({"mechanism": "dp-ssp", "stages": "one"}, False),
    "default settings": ({}, False),
    "default settings, prior": ({}, True),
}


def study(task: Task, mechanism: dict[str, Any], prior: bool) -> pv.Study:
    return pv.Study(
        name="peers",
        trajectories=task.trajectories,
        epsilon=task.epsilon,
        delta=task.delta,
        unit="trajectory",
        neighbours=task.relation,
        max_states_per_trajectory=task.most_states if task.most_states < task.states else None,
        discount=task.discount,
        rewards=task.returns,
        returns=task.returns,
        states=task.states,
        visits=list(task.visits) if prior else None,
        **mechanism,
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
        return released.value.tolist()

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
