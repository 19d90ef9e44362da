"""The whole spec of one experiment, validated: what `load_spec` yields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from perfrunner.spec.base import (
    BucketType,
    ExperimentName,
    ListAsTuple,
    MetricId,
    Piece,
    PlainName,
    VariantName,
    items_error,
    matching,
)
from perfrunner.spec.cell import NO_BUCKET, CellName
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.cpus import AUTO, Cpus
from perfrunner.spec.gains import Gain
from perfrunner.spec.metrics import METRICS, OF_A_STORE, is_metric, metric_type
from perfrunner.spec.preconditions import check_precondition
from perfrunner.spec.quantities import Count, PositiveCount, PositiveDuration, Share, Size
from perfrunner.spec.reference import Reference
from perfrunner.spec.suggest import did_you_mean, expected_name
from perfrunner.spec.units import parse_share
from perfrunner.spec.variant import ParamName, ParamValue, Variant, check_params
from perfrunner.spec.workloads import Schedule, ToolWorkload, Workload

MOST_PORT = 65535
AA_PREFIX, AGAIN = (
    "aa-",
    "-again",
)  # of an A/A experiment's name, and of the second name of its variant
_LONGEST_NAME, _LONGEST_VARIANT = 64, 100
PythonPath = Annotated[
    str,
    matching(
        r"(?:/[A-Za-z0-9._+@-]+)+",
        "the absolute path of a Python interpreter, such as /opt/sdk/bin/python",
    ),
]


class EngineSpec(Piece):
    """How the engine is started, for every variant alike. A variant's own `params` win."""

    threads: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=2, description="front-end threads"
    )
    shards: Annotated[int, Field(ge=1, le=1024)] = Field(default=2, description="flusher shards")
    quota_mb: PositiveCount = Field(default=1024, description="bucket quota, MiB")
    vbuckets: Annotated[int, Field(ge=1, le=65536)] = 1024
    port: Annotated[int, Field(ge=0, le=MOST_PORT)] = Field(
        default=0, description="0: any free port; side by side the n-th arm gets the n-th from here"
    )
    cpus: Cpus = Field(default=AUTO, description="where the engine's threads run")
    verify: Literal["replicas", "sdk"] | None = Field(
        default=None,
        description="replicas: after each trial every copy of every document is compared, by DCP;"
        " sdk: and a document of each vBucket is read from every copy by the Couchbase SDK",
    )
    params: Annotated[dict[ParamName, ParamValue], AfterValidator(check_params)] = Field(
        default_factory=dict
    )


class ClientSpec(Piece):
    """How the load clients and samplers are started, for every variant alike."""

    cpus: Cpus = Field(default=AUTO, description="where they run: beside the engine's CPUs")
    python: PythonPath | None = Field(
        default=None,
        description="for the Couchbase SDK; none: perfrunner's own on this machine, else the host's python3",
    )


class Limits(Piece):
    """Rules, fixed beforehand, by which a trial is void or given up."""

    misses: Count = Field(default=0, description="GETs of a trial that may find nothing")
    errors: Count = Field(default=0, description="operations of a trial that may fail")
    client_busy: Share = Field(
        default=0.95,
        description="busiest load thread of a cell; above it the client is saturated, and rates have no verdict",
    )
    client_waits: Share = Field(
        default=1.0,
        description="slices, of all arms, in which the load waited for a CPU; 100%: never void",
    )
    max_voids: Count = Field(default=10, description="void cells that are redone at the end")
    trial_timeout: PositiveDuration = Field(
        default=600.0, description="for each arm; side by side the arms' times add up"
    )
    arms: PositiveCount | None = Field(
        default=None, description="engines alive side by side; none: as many as fit into memory"
    )
    memory: Size | None = Field(
        default=None, description="of all arms of an ensemble; none: what the engine node has free"
    )


def _margin(metric_id: str, value: Any) -> float:
    """A share for a ratio metric, a number in the metric's own unit for a difference metric."""
    metric = metric_type(metric_id)
    if metric.effect == "ratio":
        share = parse_share(value)
        if not 0 < share < 0.5:
            raise ValueError("expected a percentage above 0 % and below 50 %, such as 1%")
        return share
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"expected a positive number ({metric.margin_unit}), such as 1.0")
    return float(value)


class Spec(Piece):
    """One experiment. Field order is the order of a spec file."""

    name: ExperimentName
    description: str = ""
    cluster: ClusterSpec
    variants: Annotated[dict[VariantName, Variant], Field(min_length=1)]
    baseline: str
    engine: EngineSpec = EngineSpec()
    client: ClientSpec = ClientSpec()
    schedule: Schedule = "side-by-side"
    relink: Literal["auto", "shuffle", "never"] = Field(
        default="auto",
        description="each block's programs linked in an order of its own; auto: where binaries differ",
    )
    buckets: Annotated[tuple[BucketType, ...], ListAsTuple, Field(min_length=1)] = ("persistent",)
    workloads: Annotated[dict[PlainName, Workload], Field(min_length=1)]
    blocks: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    precision: Share | None = None
    sampling_check: bool = True
    margins: dict[str, Any] = Field(default_factory=dict, description="use margin()")
    primary: Annotated[
        tuple[MetricId, ...], ListAsTuple, Field(min_length=1, max_length=3, validate_default=True)
    ] = ("ops_per_s",)
    limits: Annotated[Limits, Field(validate_default=True)] = Limits()
    preconditions: Annotated[
        tuple[Annotated[str, AfterValidator(check_precondition)], ...], ListAsTuple
    ] = ()
    gains: Annotated[tuple[Gain, ...], ListAsTuple] = Field(
        default=(), description="what a variant is known to be worth: for --fail-on lost"
    )
    reference: Reference | None = Field(default=None, description="values published before")
    profile: str | None = Field(default=None, description="the overlay that --profile chose")

    @field_validator("baseline")
    @classmethod
    def _is_a_variant(cls, baseline: str, info: ValidationInfo) -> str:
        context: dict[str, Any] = info.context or {}
        names = context.get("variant_names") or info.data.get("variants")
        if names and not context.get("variants_unknown") and baseline not in names:
            raise ValueError(expected_name("the name of a variant", baseline, names))
        return baseline

    @field_validator("engine")
    @classmethod
    def _ports_for_all_arms(cls, engine: EngineSpec, info: ValidationInfo) -> EngineSpec:
        arms = len(info.data.get("variants") or ())
        highest = MOST_PORT + 1 - max(1, arms)
        if engine.port > highest:
            why = f"side by side the n-th of {arms} arms gets the n-th port from here"
            text = f"expected 0 or at most {highest}: {why}; got {engine.port}"
            raise items_error({"port": text})
        return engine

    @field_validator("workloads")
    @classmethod
    def _params_reach_something(
        cls, workloads: dict[str, Workload], info: ValidationInfo
    ) -> dict[str, Workload]:
        """A variant that differs only in engine parameters would silently be compared with itself."""
        variants: dict[str, Variant] = info.data.get("variants") or {}
        given = [name for name, variant in variants.items() if variant.params]
        if given and all(isinstance(workload, ToolWorkload) for workload in workloads.values()):
            raise ValueError(
                f"expected a workload on an engine: variant {given[0]} has params, which no program of a"
                " microbench or latency workload takes"
            )
        return workloads

    @field_validator("workloads")
    @classmethod
    def _are_possible_here(
        cls, workloads: dict[str, Workload], info: ValidationInfo
    ) -> dict[str, Workload]:
        cluster, buckets = info.data.get("cluster"), info.data.get("buckets")
        if cluster is not None and buckets is not None:
            wrong = {
                (name, key): text
                for name, workload in workloads.items()
                for key, text in workload.impossible(cluster, buckets).items()
            }
            if wrong:
                raise items_error(wrong)
        return workloads

    @field_validator("reference")
    @classmethod
    def _names_what_is_here(
        cls, reference: Reference | None, info: ValidationInfo
    ) -> Reference | None:
        variants, workloads = info.data.get("variants"), info.data.get("workloads")
        context: dict[str, Any] = info.context or {}
        if reference is None or not variants or not workloads or context.get("variants_unknown"):
            return reference
        bucketless = [name for name, workload in workloads.items() if not workload.per_bucket]
        wrong = dict(reference.problems(variants, workloads, bucketless))
        if wrong:
            raise items_error(wrong)
        return reference

    @field_validator("gains")
    @classmethod
    def _gains_name_what_is_here(
        cls, gains: tuple[Gain, ...], info: ValidationInfo
    ) -> tuple[Gain, ...]:
        variants, workloads = info.data.get("variants"), info.data.get("workloads")
        context: dict[str, Any] = info.context or {}
        if not variants or not workloads or context.get("variants_unknown"):
            return gains
        bucketless = [name for name, workload in workloads.items() if not workload.per_bucket]
        wrong = {
            (index, key): text
            for index, gain in enumerate(gains)
            for key, text in gain.problems(variants, workloads, bucketless)
        }
        if wrong:
            raise items_error(wrong)
        return gains

    @field_validator("buckets", "primary", "preconditions")
    @classmethod
    def _no_repetition(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if values.count(value) > 1:
                raise ValueError(
                    f"expected each name once; got {value} {values.count(value)} times"
                )
        return values

    @field_validator("primary")
    @classmethod
    def _is_measured(cls, primary: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Also the default: microbenchmarks alone have no ops_per_s."""
        workloads: dict[str, Workload] = info.data.get("workloads") or {}
        for name in primary:
            if workloads and not any(workload.may_give(name) for workload in workloads.values()):
                raise ValueError(f"expected a metric that some workload gives; none gives {name}")
            if name in OF_A_STORE and "persistent" not in info.data.get("buckets", ["persistent"]):
                raise ValueError(
                    f"expected a metric of these buckets; {name} is a persistent one's"
                )
        return primary

    @field_validator("limits")
    @classmethod
    def _leaves_time(cls, limits: Limits, info: ValidationInfo) -> Limits:
        workloads: dict[str, Workload] = info.data.get("workloads") or {}
        for name, workload in workloads.items():
            if limits.trial_timeout < workload.least_seconds:
                least = f"expected at least the {workload.least_seconds:g} s that a trial of {name} takes"
                raise items_error({"trial_timeout": f"{least}, got {limits.trial_timeout:g} s"})
        return limits

    @field_validator("precision")
    @classmethod
    def _useful_precision(cls, precision: float | None) -> float | None:
        if precision is not None and not 0 < precision < 0.5:
            raise ValueError("expected a percentage above 0 % and below 50 %, such as 1%")
        return precision

    @field_validator("margins")
    @classmethod
    def _margins(cls, margins: dict[str, Any]) -> dict[str, float]:
        parsed, wrong = {}, {}
        for name, value in margins.items():
            if not is_metric(name):
                wrong[name] = f"unknown metric{did_you_mean(name, METRICS)}"
                continue
            try:
                parsed[name] = _margin(name, value)
            except ValueError as error:
                wrong[name] = str(error)
        if wrong:
            raise items_error(wrong)
        return parsed

    def margin(self, metric_id: str) -> float:
        """The margin of a metric: a share for a ratio, in the metric's unit for a difference."""
        given = self.margins.get(metric_id)
        return metric_type(metric_id).default_margin if given is None else float(given)

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Every (workload, bucket) that is compared; the bucket is `-` where a workload has none."""
        return tuple(
            (name, bucket)
            for name, workload in self.workloads.items()
            for bucket in (self.buckets if workload.per_bucket else (NO_BUCKET,))
        )

    def schedule_of(self, workload: str) -> Schedule:
        """The workload's own, or the spec's."""
        return self.workloads[workload].schedule or self.schedule

    def params_of(self, variant: str) -> dict[str, str]:
        """The engine parameters of a variant: the engine's, overlaid by its own."""
        return {**self.engine.params, **self.variants[variant].params}

    def against_itself(self, variant: str | None = None) -> Spec:
        """The A/A experiment of this one: two names of one variant (the baseline), nothing else changed."""
        name = self.baseline if variant is None else variant
        arm = self.variants[name]
        again = f"{name[: _LONGEST_VARIANT - len(AGAIN)]}{AGAIN}"
        return self.only_compared().model_copy(
            update={
                "name": f"{AA_PREFIX}{self.name}"[:_LONGEST_NAME],
                "description": f"A/A: {name} against itself, on the workloads of {self.name}",
                "variants": {name: arm, again: arm.model_copy(update={"name": again})},
                "baseline": name,
                "gains": (),
                "reference": None,
            }
        )

    def only_compared(self) -> Spec:
        """The same comparison without what runs beside it at the end: the sampling check and profiles."""
        loads = {
            name: workload.model_copy(update={"profile": None})
            for name, workload in self.workloads.items()
        }
        return self.model_copy(update={"sampling_check": False, "workloads": loads})

    def restricted(
        self, workloads: tuple[str, ...] | None, variants: tuple[str, ...] | None
    ) -> Spec:
        """The same experiment with only these workloads and variants; the baseline always stays."""
        kept = None if variants is None else {*variants, self.baseline}
        loads = {k: v for k, v in self.workloads.items() if workloads is None or k in workloads}
        arms = {k: v for k, v in self.variants.items() if kept is None or k in kept}
        reference = self.reference and self.reference.restricted(arms, loads)
        gains = tuple(
            gain
            for gain in self.gains
            if gain.workload in loads and {gain.variant, gain.against or self.baseline} <= {*arms}
        )
        return self.model_copy(
            update={"workloads": loads, "variants": arms, "gains": gains, "reference": reference}
        )
