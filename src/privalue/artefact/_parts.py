"""Define the parts of a release: what is promised, the noise, and what each mechanism released.

They stand in the order in which a release is made: the promise and its noise, what dp-ssp releases
stage by stage, the overall value of the policy, what dp-ope releases, and the software.
``_release`` puts them together.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from privalue.artefact._values import Numbers

Accepted = Literal["useless", "large-delta"]


class Part(BaseModel):
    """What all parts have in common: every field is known, and none changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields agree, arrays included."""
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]


class Guarantee(Part):
    """What is promised, to whom."""

    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0, lt=1, description="0: pure epsilon, by Laplace noise")
    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"]
    invalid: Literal["refuse", "drop-unit"] = Field(
        default="refuse",
        description="data with an invalid row is refused, or a unit with one counts as nobody",
    )

    def change(self) -> str:
        """Return in words what neighbouring data sets differ in."""
        return (
            f"replacing any one {self.unit} by another"
            if self.neighbours == "replace-one"
            else f"adding or removing any one {self.unit}"
        )


class PublicNoise(Part):
    """What is public about the noise: its constants and its grid.

    Its scale is a secret of the data, unless it is the same for all data sets (``sigma``).
    """

    calibration: Literal["exact", "nissim", "appendix"]
    law: Literal["laplace"] | None = Field(default=None, description="Gaussian where left out")
    alpha: float = Field(gt=0)
    beta: float = Field(ge=0, description="0 where the scale is the same for all data sets")
    shape: Literal["isotropic", "whitened", "statistics", "weights"]
    grid: float = Field(
        gt=0, description="every drawn number (with dp-ssp: every sum) is a multiple of it"
    )
    sigma: float | None = Field(
        default=None,
        gt=0,
        description="dp-ssp: the standard deviation of the noise of a sum whose shape is 1; of "
        "dp-ope: that of the sum of weighted returns",
    )


class ReleasedStatistics(Part):
    """The output of dp-ssp itself: everything else is computed from it, at no further cost."""

    sums: Numbers = Field(description="noisy sums of returns less the middle of their bounds")
    counts: Numbers = Field(
        description="noisy numbers of trajectories that visit each state (with actions: each pair)"
    )
    sum_noise: Numbers = Field(description="the standard deviation of each sum's noise")
    count_noise: Numbers = Field(description="the standard deviation of each count's noise")


class Share(Part):
    """A share of trajectories, from noisy numbers, with its interval."""

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class StageChoice(Part):
    """What a stage chose from what it released; empty where there was nothing to choose."""

    level: int | None = Field(
        default=None, ge=0, description="stage bounds: the number of the chosen candidate, from 0"
    )
    low: float | None = Field(
        default=None, description="stage bounds: returns are held between low and high"
    )
    high: float | None = None
    beyond: Share | None = Field(
        default=None,
        description="stage bounds: the share of trajectories with a return beyond these bounds",
    )


class ReleasedStage(Part):
    """One of the Gaussian stages of dp-ssp; the squares of their mu add up to no more than mu^2."""

    name: Literal["bounds", "values"]
    mu: float = Field(gt=0, description="1/alpha, rounded")
    alpha: float = Field(gt=0, description="noise is alpha times the sensitivity of the stage")
    chosen: StageChoice
    numbers: Numbers | None = Field(
        default=None, description="what the stage released; for the values, see statistics"
    )
    noise: float | None = Field(
        default=None, gt=0, description="the standard deviation of each number's noise"
    )


class Restriction(Part):
    """Bounds that a stage chose: values and intervals are for returns held between these."""

    low: float
    high: float


class PolicyInterval(Part):
    """The intervals of the overall value of the policy, for the noise alone and for the total."""

    low: float
    high: float
    total_low: float
    total_high: float


class TotalInterval(Part):
    """The interval of a difference: for noise and the choice of people together."""

    total_low: float
    total_high: float


class PolicyInArm(Part):
    """The overall value of the policy in one arm, and its difference from the first arm's."""

    arm: str
    value: float
    interval: PolicyInterval | None = None
    difference: float | None = Field(default=None, description="this value less the first arm's")
    difference_interval: TotalInterval | None = None


class ReleasedWeights(Part):
    """The output of dp-ope itself, in numbers of trajectories and of returns' range."""

    weighted: Numbers = Field(description="sums of weight times return less the middle, over R")
    weights: Numbers = Field(description="sums of weights")
    returns: Numbers = Field(description="sums of returns less the middle, over R")
    sizes: Numbers | None = Field(
        default=None, description="numbers of trajectories, where they are not public"
    )
    scales: Numbers = Field(
        description="of the noise of each of these, in their order: Laplace's scale, or the "
        "standard deviation"
    )


class PolicyTrust(Part):
    """How far to trust the value of another policy than the data's."""

    clipping_bias: float = Field(ge=0, description="R tau at the kept mass, tau = 1 - kept")
    largest_clipping_bias: float = Field(ge=0, description="the same at its lower end")
    effective_trajectories: float = Field(
        ge=0, description="about so many, equally weighted, would be as good, or more: n/C"
    )
    behaviour_contradicted: bool | None = Field(
        default=None, description="the kept mass is above 1: the behaviour is wrong"
    )


class PolicyTrusts(Part):
    """The same by start, in the order of values."""

    clipping_bias: Numbers
    largest_clipping_bias: Numbers
    effective_trajectories: Numbers
    behaviour_contradicted: bool | None = Field(
        default=None,
        description="the kept mass of a start is above 1, at a level that holds for all starts at "
        "once: the behaviour is wrong",
    )


class Compared(Part):
    """A number beside the policy's, with its intervals."""

    value: float
    interval: PolicyInterval


class Software(Part):
    """What made the release."""

    name: Literal["privalue"] = "privalue"
    version: str
