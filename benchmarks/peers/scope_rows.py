"""Write the rows that SCOPE-RL's values are of: ``python -m benchmarks.peers.scope_rows ROWS.csv``.

Gymnasium's FrozenLake, 2,000 episodes of the uniform policy; the target goes 5% of the way to the
best one, so that no weight is above 3.5 and nothing is clipped.
"""

import sys
from pathlib import Path

import privalue as pv
from privalue.simulation import Episodes, World, parse_world, simulate_episodes

CLIP = 3.5


def world_and_target() -> tuple[World, World]:
    """Return the world as people acted in it, and as the target would."""
    world = parse_world("gym:FrozenLake-v1")
    return world, world.under("optimal:0.05")


def rows() -> Episodes:
    """Return the episodes."""
    return simulate_episodes(world_and_target()[0], trajectories=2000, seed=2630, actions=True)


def study() -> pv.Study:
    """Return the study that values the target."""
    world, target = world_and_target()
    tables = [
        {
            str(s): {str(a): float(p) for a, p in enumerate(row)}
            for s, row in enumerate(policy.decisions[1])
        }
        for policy in (target, world)
    ]
    mdp, _ = world.decisions
    return pv.Study(
        states=mdp.states,
        actions=mdp.actions,
        discount=mdp.discount,
        returns=(0.0, 1.0),
        epsilon=1.0,
        unit="trajectory",
        mechanism="dp-ope",
        policy={"target": tables[0], "behaviour": tables[1], "clip": CLIP},
    )


def write(out: Path) -> None:
    """Write the rows with both policies' probabilities of what was done."""
    world, target = world_and_target()
    data = rows()
    assert data.action is not None
    columns = [policy.decisions[1][data.state, data.action] for policy in (world, target)]
    lines = ["trajectory,step,action,reward,behaviour,target"]
    both = zip(data.trajectory, data.step, data.action, data.reward, *columns, strict=True)
    lines += [",".join(repr(cell.item()) for cell in line) for line in both]
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
