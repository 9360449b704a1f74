"""Define the section ``[mechanism]``: one class for each algorithm, chosen by the key ``name``.

A class has the keys that apply to its algorithm and no others, so that a key without effect cannot
be written. Other modules read some attributes of every mechanism alike; in a class where one of
these is not a key, it is a constant.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, model_serializer, model_validator
from pydantic.fields import FieldInfo

from privalue.errors import StudyError
from privalue.study._section_rules import LARGEST, SMALLEST, Number, Section, key, meant, shown

_NAMES = '"dp-ssp", "dp-lsw", "dp-lsl", or "dp-ope" (the value of [policy] target)'


def _named(name: str) -> Any:
    """Return the field ``name`` with the one value that a class has."""
    return key("the algorithm", _NAMES, name)


def _only_exact(value: object) -> object:
    """Refuse the paper's calibrations for dp-ssp, and say what they are for."""
    if value in ("nissim", "appendix"):
        raise ValueError(
            f'= "{value}": the paper\'s constants are for dp-lsw and dp-lsl; remove it, dp-ssp is '
            "calibrated exactly"
        )
    return value


def _only_isotropic(value: object) -> object:
    """Refuse whitened noise for dp-lsl, and say what it is for."""
    if value == "whitened":
        raise ValueError('= "whitened" is for dp-lsw only; use "isotropic" with "dp-lsl"')
    return value


STAGE_SHARES = {"bounds": 0.10}
_SHARES = "a share of mu^2 for bounds, above 0 and below 1; the values get the rest"


def _each_once(value: object) -> object:
    """Return stages as a tuple; what is no list stays as it is."""
    if not isinstance(value, list | tuple):
        return value
    if not value or len(set(map(str, value))) < len(value):
        raise ValueError(f'= {shown(value)} must name each stage once; for none write "one"')
    return tuple(value)


def _with_defaults(value: object) -> object:
    """Return shares of all stages, or refuse what is no table of shares."""
    if not isinstance(value, Mapping):
        return value
    for name, share in value.items():
        if name not in STAGE_SHARES:
            known = ", ".join(STAGE_SHARES)
            raise ValueError(f'has no stage "{name}"; stages with a share are {known}')
        number = isinstance(share, int | float) and not isinstance(share, bool)
        if not (number and 0 < share < 1):
            raise ValueError(f"{name} = {shown(share)} is not allowed; it must be {_SHARES}")
    return {name: float(value.get(name, default)) for name, default in STAGE_SHARES.items()}


class MechanismSection(Section):
    """The base of the sections of all mechanisms."""

    @classmethod
    def unknown_key(cls, written: str) -> str:
        """Say which mechanisms a key applies to, or what it may be meant for."""
        if written not in MECHANISM_KEYS:
            return f"{written} is not a key of a study; {meant(written, MECHANISM_KEYS)}"
        others = sorted(name for name, kind in _KINDS.items() if written in kind.model_fields)
        first = f"{', '.join(others[:-1])} and " if len(others) > 1 else ""
        return (
            f"{written} applies to {first}{others[-1]} only, and name = "
            f'"{cls.model_fields["name"].default}"; remove it, or change name'
        )

    @abstractmethod
    def stated(self) -> set[str]:
        """Return the keys that a release states even if nobody wrote them down."""

    @model_serializer
    def _in_force(self) -> dict[str, Any]:
        """Return the keys that are stated or written, in the order of the study file."""
        keys = self.stated() | self.given
        return {key: getattr(self, key) for key in MECHANISM_KEYS if key in keys}


class _Calibrated(MechanismSection):
    """The keys of dp-lsw and dp-lsl, whose noise follows from a smooth bound."""

    calibration: Literal["exact", "nissim", "appendix"] = key(
        "how the constants alpha and beta of the noise are computed",
        '"exact", or the paper\'s "nissim" (Lemma 1) or "appendix" (appendix A)',
        "exact",
    )
    beta: Literal["auto"] | Annotated[Number, Field(gt=0)] = key(
        "the smoothness of the bound on sensitivity (dp-lsw and dp-lsl only)",
        '"auto" or a number above 0',
        "auto",
    )

    @model_validator(mode="after")
    def _exactly_calibrated(self) -> "_Calibrated":
        """Refuse keys of exact calibration next to the paper's calibrations."""
        for name in ("beta", "pseudo_count"):
            if name in self.given and self.calibration != "exact":
                raise ValueError(
                    f'{name} applies to calibration = "exact" only, and calibration = '
                    f'"{self.calibration}"; remove it'
                )
        return self

    def stated(self) -> set[str]:
        # dp-lsl states its pseudo-count of 0 too: the hashes of studies depend on these keys
        """Return the calibration too, and beta if the calibration is exact."""
        exact = {"beta", "pseudo_count"} if self.calibration == "exact" else set()
        return {"name", "calibration", "noise"} | exact


class _Ridged(MechanismSection):
    """The keys of dp-lsl and dp-ssp, which may fit the features with a ridge."""

    ridge: Literal["sqrt"] | Annotated[Number, Field(ge=SMALLEST, le=LARGEST)] = key(
        "the ridge lambda of dp-lsl; with dp-ssp, features are then fitted by LSL instead of LSW",
        '"sqrt" (ridge_scale * sqrt(m)) or a number above 0 (1e-30 to 1e30)',
        "sqrt",
    )
    ridge_scale: Number = key(
        'the factor of sqrt(m), with ridge = "sqrt"',
        "a number above 0 (1e-30 to 1e20)",
        100.0,
        ge=SMALLEST,
        le=1e20,
    )

    @model_validator(mode="after")
    def _one_ridge(self) -> "_Ridged":
        """Refuse a scale for a ridge that is given as a number."""
        if "ridge_scale" in self.given and self.ridge != "sqrt":
            raise ValueError('ridge_scale applies to ridge = "sqrt" only; remove one of the two')
        return self


class SspSection(_Ridged):
    """The section of dp-ssp: noisy sums and counts, from which everything else is fitted."""

    name: Literal["dp-ssp"] = _named("dp-ssp")
    calibration: Annotated[Literal["exact"], BeforeValidator(_only_exact)] = key(
        "the constants of the noise", '"exact"', "exact"
    )
    stages: Annotated[
        Literal["auto", "one"] | tuple[Literal["bounds"], ...], BeforeValidator(_each_once)
    ] = key(
        "a small release before the values, which chooses a tighter bound of returns (dp-ssp only)",
        '"auto", "one" (no stage but the values), or ["bounds"]',
        "auto",
    )
    stage_shares: Annotated[dict[str, float], BeforeValidator(_with_defaults)] = key(
        "the share of the budget that the stage may spend (dp-ssp only)", _SHARES, STAGE_SHARES
    )
    shrinkage: StrictBool = key(
        "move values of rarely visited states towards what the other states suggest, as far as the"
        " noise calls for (dp-ssp only)",
        "true or false",
        True,
    )

    noise: ClassVar[Literal["isotropic"]] = "isotropic"
    beta: ClassVar[Literal["auto"]] = "auto"
    pseudo_count: ClassVar[float] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _shares_are_of_stages(cls, written: object) -> object:
        """Refuse a share for a stage that the study says there is not."""
        if not isinstance(written, Mapping):
            return written
        stages, shares = written.get("stages", "auto"), written.get("stage_shares")
        if isinstance(shares, Mapping) and stages == "one":
            for name, share in shares.items():
                if share != STAGE_SHARES.get(name, share):  # the usual one, a saved study has
                    raise ValueError(
                        f'stage_shares has {name}, and stages = "one" has not; remove it, or add '
                        "the stage"
                    )
        return written

    def stated(self) -> set[str]:
        """Return the keys without those of a ridge, which dp-ssp states if it is given."""
        return {"name", "calibration", "shrinkage"}


class LswSection(_Calibrated):
    """The section of dp-lsw, [BGP16] Algorithm 1: least squares with the weights w."""

    name: Literal["dp-lsw"] = _named("dp-lsw")
    noise: Literal["whitened", "isotropic"] = key(
        "the shape of the noise (dp-lsw and dp-lsl only)",
        '"isotropic" (the paper\'s; the only one for dp-lsl) or, for dp-lsw, "whitened"',
        "whitened",
    )
    pseudo_count: Number = key(
        "made-up visits that every state gets in addition, each with the value of an unvisited "
        "state (dp-lsw only)",
        "a number from 0 to 1e15",
        0.0,
        ge=0,
        le=1e15,
    )

    ridge: ClassVar[Literal["sqrt"]] = "sqrt"
    ridge_scale: ClassVar[float] = 100.0
    shrinkage: ClassVar[bool] = False
    stages: ClassVar[Literal["one"]] = "one"
    stage_shares: ClassVar[Mapping[str, float]] = {}


class LslSection(_Calibrated, _Ridged):
    """The section of dp-lsl, [BGP16] Algorithm 2.

    It is least squares with the load of visits as weights, and a ridge.
    """

    name: Literal["dp-lsl"] = _named("dp-lsl")
    noise: Annotated[Literal["isotropic"], BeforeValidator(_only_isotropic)] = key(
        "the shape of the noise", '"isotropic"', "isotropic"
    )

    pseudo_count: ClassVar[float] = 0.0
    shrinkage: ClassVar[bool] = False
    stages: ClassVar[Literal["one"]] = "one"
    stage_shares: ClassVar[Mapping[str, float]] = {}

    def stated(self) -> set[str]:
        """Return the ridge too."""
        return super().stated() | {"ridge"} | ({"ridge_scale"} if self.ridge == "sqrt" else set())


class OpeSection(MechanismSection):
    """The section of dp-ope: what another policy would have been worth, by clipped weights."""

    name: Literal["dp-ope"] = _named("dp-ope")

    noise: ClassVar[Literal["laplace"]] = "laplace"
    calibration: ClassVar[Literal["exact"]] = "exact"
    beta: ClassVar[Literal["auto"]] = "auto"
    pseudo_count: ClassVar[float] = 0.0
    ridge: ClassVar[Literal["sqrt"]] = "sqrt"
    ridge_scale: ClassVar[float] = 100.0
    shrinkage: ClassVar[bool] = False
    stages: ClassVar[Literal["one"]] = "one"
    stage_shares: ClassVar[Mapping[str, float]] = {}

    def stated(self) -> set[str]:
        """Return the name, which is all that there is."""
        return {"name"}


AnyMechanism: TypeAlias = SspSection | LswSection | LslSection | OpeSection

_KINDS: Mapping[str, type[AnyMechanism]] = {
    "dp-ssp": SspSection,
    "dp-lsw": LswSection,
    "dp-lsl": LslSection,
    "dp-ope": OpeSection,
}

_DESCRIBED_BY: Mapping[str, type[MechanismSection]] = {
    "name": SspSection,
    "stages": SspSection,
    "stage_shares": SspSection,
    "calibration": LswSection,
    "noise": LswSection,
    "beta": LswSection,
    "pseudo_count": LswSection,
    "ridge": LslSection,
    "ridge_scale": LslSection,
    "shrinkage": SspSection,
}
# Every key of [mechanism], in the order of the study file, as the reference explains it.
MECHANISM_KEYS: Mapping[str, FieldInfo] = {
    key: kind.model_fields[key] for key, kind in _DESCRIBED_BY.items()
}


def Mechanism(*, name: str = "dp-ssp", **keys: Any) -> AnyMechanism:  # noqa: N802  # as a section
    """Return the section ``[mechanism]`` of the algorithm called ``name``, with its keys.

    >>> Mechanism(name="dp-lsw", noise="isotropic").calibration
    'exact'
    """
    if not isinstance(name, str) or name not in _KINDS:
        raise StudyError(f"name = {shown(name)} is not allowed; it must be {_NAMES}")
    return _KINDS[name](name=name, **keys)


def _from_keys(section: object) -> object:
    """Build the section of a mechanism from its keys."""
    return Mechanism(**section) if isinstance(section, dict) else section


# [mechanism] as a section of a study: one of the classes, or the keys of one.
MechanismField: TypeAlias = Annotated[
    AnyMechanism, Field(discriminator="name"), BeforeValidator(_from_keys)
]
