"""Define the model of a whole spec, which `load_spec` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from perfrunner.domain import NO_BUCKET, PRECONDITIONS, Case
from perfrunner.spec.base import (
    BucketType,
    Count,
    Cpus,
    ExperimentName,
    ListAsTuple,
    MetricId,
    Piece,
    PlainName,
    PositiveCount,
    PositiveDuration,
    Share,
    Size,
    VariantName,
    matching,
    refuse,
)
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.expectations import ExpectedGain, PublishedValues
from perfrunner.spec.metrics import METRICS, OF_A_STORE, is_metric, metric_type
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.units import AUTO, number_of, parse_share
from perfrunner.spec.variant import ParamName, ParamValue, Variant, check_params
from perfrunner.spec.workloads import PillowfightSpec, Schedule, ToolWorkload, Workload

MOST_PORT = 65535
AA_PREFIX = "aa-"  # starts the name of an A/A experiment
AGAIN = "-again"  # ends the name of its second variant
_LONGEST_NAME, _LONGEST_VARIANT = 64, 100
PythonPath = Annotated[
    str,
    matching(
        r"(?:/[A-Za-z0-9._+@-]+)+",
        "the absolute path of a Python interpreter, such as /opt/sdk/bin/python",
    ),
]


def check_precondition(name: str) -> str:
    """Return the name if the precondition exists. Raises ValueError, which lists the known ones."""
    if name not in PRECONDITIONS:
        raise ValueError(expected_name("a precondition", name, PRECONDITIONS))
    return name


class EngineSpec(Piece):
    """The engine's start settings, shared by all variants. A variant's own `params` take precedence."""

    threads: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=2, description="front-end threads"
    )
    shards: Annotated[int, Field(ge=1, le=1024)] = Field(default=2, description="flusher shards")
    quota_mb: PositiveCount = Field(default=1024, description="bucket quota, MiB")
    vbuckets: Annotated[int, Field(ge=1, le=65536)] = 1024
    port: Annotated[int, Field(ge=0, le=MOST_PORT)] = Field(
        default=0,
        description="0: any free port; interleaved, the n-th variant gets the n-th port from here",
    )
    cpus: Cpus = Field(default=AUTO, description="where the engine's threads run")
    verify: Literal["replicas", "sdk"] | None = Field(
        default=None,
        description="replicas: compare every copy of every document over DCP after each trial;"
        " sdk: also read a document of each vBucket from every copy with the Couchbase SDK",
    )
    params: Annotated[dict[ParamName, ParamValue], AfterValidator(check_params)] = Field(
        default_factory=dict
    )


class ClientSpec(Piece):
    """The start settings of load clients and samplers, shared by all variants."""

    cpus: Cpus = Field(default=AUTO, description="where they run; auto: not on the engine's CPUs")
    python: PythonPath | None = Field(
        default=None,
        description="interpreter with the Couchbase SDK; none: perfrunner's own on this machine,"
        " python3 on other hosts",
    )


class Limits(Piece):
    """Rules, fixed before the run, by which a trial is discarded or aborted."""

    misses: Count = Field(default=0, description="allowed GETs of a trial that find nothing")
    errors: Count = Field(default=0, description="allowed failed operations of a trial")
    client_busy: Share = Field(
        default=0.95,
        description="CPU use of the busiest load thread of a case above which the client counts as"
        " saturated and rates get no verdict",
    )
    client_waits: Share = Field(
        default=1.0,
        description="share of slices, over all variants, in which the load may wait for a CPU;"
        " 100%: never discarded",
    )
    max_discarded: Count = Field(
        default=10,
        description="repetitions that the run may make, over all cases, after discarded or failed trials",
    )
    trial_timeout: PositiveDuration = Field(
        default=600.0, description="for each variant; interleaved, the times of the variants add up"
    )
    group_size: PositiveCount | None = Field(
        default=None, description="engines alive at the same time; none: as many as fit into memory"
    )
    memory: Size | None = Field(
        default=None,
        description="memory of all variants of a group; none: 80 % of what the engine node has available",
    )


def _margin(metric_id: str, value: Any) -> float:
    """Parse a margin: a share for a ratio metric, a number in the metric's unit for a difference."""
    metric = metric_type(metric_id)
    if metric.effect == "ratio":
        share = parse_share(value)
        if not 0 < share < 0.5:
            raise ValueError("expected a percentage above 0 % and below 50 %, such as 1%")
        return share
    number = number_of(value)
    if number is None or number <= 0:
        raise ValueError(f"expected a positive number ({metric.margin_unit}), such as 1.0")
    return number


def _without_buckets(
    variants: Mapping[str, Variant], workloads: Mapping[str, Workload]
) -> list[str]:
    """Return the workloads that have no bucket: all of them if no variant is an engine."""
    engines = any(variant.server is None for variant in variants.values())
    return [name for name, workload in workloads.items() if not (engines and workload.per_bucket)]


class Spec(Piece):
    """One experiment. The fields are in the order of a spec file."""

    name: ExperimentName
    description: str = ""
    cluster: ClusterSpec
    variants: Annotated[dict[VariantName, Variant], Field(min_length=1)]
    baseline: str
    engine: EngineSpec = EngineSpec()
    client: ClientSpec = ClientSpec()
    schedule: Schedule = "interleaved"
    relink: Literal["auto", "shuffle", "never"] = Field(
        default="auto",
        description="link the programs of each block in a new random order; auto: where binaries differ",
    )
    buckets: Annotated[tuple[BucketType, ...], ListAsTuple, Field(min_length=1)] = ("persistent",)
    workloads: Annotated[dict[PlainName, Workload], Field(min_length=1)]
    blocks: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    precision: Share | None = None
    sampling_check: bool = True
    margins: dict[str, Any] = Field(
        default_factory=dict, description="by metric; read with margin()"
    )
    primary: Annotated[
        tuple[MetricId, ...], ListAsTuple, Field(min_length=1, max_length=3, validate_default=True)
    ] = ("ops_per_s",)
    limits: Annotated[Limits, Field(validate_default=True)] = Limits()
    preconditions: Annotated[
        tuple[Annotated[str, AfterValidator(check_precondition)], ...], ListAsTuple
    ] = ()
    expected_gains: Annotated[tuple[ExpectedGain, ...], ListAsTuple] = Field(
        default=(), description="known effects of variants, checked by --fail-on lost"
    )
    published: PublishedValues | None = Field(
        default=None, description="values that others published"
    )
    profile: str | None = Field(default=None, description="the overlay chosen with --profile")

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
    def _ports_for_all_variants(cls, engine: EngineSpec, info: ValidationInfo) -> EngineSpec:
        variants = len(info.data.get("variants") or ())
        highest = MOST_PORT + 1 - max(1, variants)
        if engine.port > highest:
            why = f"interleaved, the n-th of {variants} variants gets the n-th port from here"
            text = f"expected 0 or at most {highest} ({why}); got {engine.port}"
            refuse({"port": text})
        return engine

    @field_validator("workloads")
    @classmethod
    def _params_reach_something(
        cls, workloads: dict[str, Workload], info: ValidationInfo
    ) -> dict[str, Workload]:
        """Refuse params that no workload uses: variants that differ only in them would be the same."""
        variants: dict[str, Variant] = info.data.get("variants") or {}
        given = [name for name, variant in variants.items() if variant.params]
        if given and all(isinstance(workload, ToolWorkload) for workload in workloads.values()):
            raise ValueError(
                f"expected a workload that starts an engine: variant {given[0]} sets params, which programs"
                " without an engine do not take"
            )
        return workloads

    @field_validator("workloads")
    @classmethod
    def _are_possible_here(
        cls, workloads: dict[str, Workload], info: ValidationInfo
    ) -> dict[str, Workload]:
        cluster, buckets = info.data.get("cluster"), info.data.get("buckets")
        if cluster is not None and buckets is not None:
            refuse(
                {
                    (name, key): text
                    for name, workload in workloads.items()
                    for key, text in workload.impossible(cluster, buckets).items()
                }
            )
        return workloads

    @field_validator("workloads")
    @classmethod
    def _load_other_servers(
        cls, workloads: dict[str, Workload], info: ValidationInfo
    ) -> dict[str, Workload]:
        """Refuse what only the engine can do, where a variant is another server."""
        variants: dict[str, Variant] = info.data.get("variants") or {}
        others = [name for name, variant in variants.items() if variant.server is not None]
        cluster, engine = info.data.get("cluster"), info.data.get("engine")
        if not others:
            return workloads
        why = f"variant {others[0]} is another server than the engine"
        if engine is not None and engine.verify is not None:
            raise ValueError(f"expected engine without verify: {why}")
        if cluster is not None and len(cluster.engine_nodes) > 1:
            raise ValueError(f"expected a cluster with one engine node: {why}")
        servers = (variants[name].server for name in others)
        if (
            cluster is not None
            and cluster.build_host is not None
            and any(server is not None and server.is_sent for server in servers)
        ):
            raise ValueError(
                f"expected a cluster without build_host: {why}, whose program is of this machine"
            )
        wrong: dict[tuple[str, str], str] = {}
        for name, workload in workloads.items():
            if not isinstance(workload, PillowfightSpec):
                wrong[name, "type"] = f"expected pillowfight: {why}; got {workload.type}"
            elif workload.instructions:
                wrong[name, "instructions"] = f"expected 0: {why}"
        refuse(wrong)
        return workloads

    @field_validator("published", "expected_gains")
    @classmethod
    def _name_what_is_here(cls, value: Any, info: ValidationInfo) -> Any:
        variants, workloads = info.data.get("variants"), info.data.get("workloads")
        context: dict[str, Any] = info.context or {}
        if not value or not variants or not workloads or context.get("variants_unknown"):
            return value
        names = (variants, workloads, _without_buckets(variants, workloads))
        if isinstance(value, PublishedValues):
            refuse(dict(value.problems(*names)))
        else:
            gains = enumerate(value)
            refuse({(n, key): text for n, gain in gains for key, text in gain.problems(*names)})
        return value

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
        """Check the default as well: a spec of microbenchmarks only has no ops_per_s."""
        workloads: dict[str, Workload] = info.data.get("workloads") or {}
        for name in primary:
            if workloads and not any(workload.may_give(name) for workload in workloads.values()):
                raise ValueError(
                    f"expected a metric that a workload of this spec measures; got {name}"
                )
            if name in OF_A_STORE and "persistent" not in info.data.get("buckets", ["persistent"]):
                raise ValueError(
                    f"expected a metric of these buckets; got {name}, which only persistent buckets have"
                )
        return primary

    @field_validator("limits")
    @classmethod
    def _leaves_time(cls, limits: Limits, info: ValidationInfo) -> Limits:
        workloads: dict[str, Workload] = info.data.get("workloads") or {}
        for name, workload in workloads.items():
            if limits.trial_timeout < workload.least_seconds:
                least = f"expected at least {workload.least_seconds:g} s, the duration of a trial of {name}"
                refuse({"trial_timeout": f"{least}, got {limits.trial_timeout:g} s"})
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
                wrong[name] = expected_name("a metric", name, METRICS)
                continue
            try:
                parsed[name] = _margin(name, value)
            except ValueError as error:
                wrong[name] = str(error)
        refuse(wrong)
        return parsed

    def margin(self, metric_id: str) -> float:
        """Return the margin of a metric: a share for a ratio, in the metric's unit for a difference."""
        given = self.margins.get(metric_id)
        return metric_type(metric_id).default_margin if given is None else float(given)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases that are compared; the bucket is `-` if a workload has none."""
        bucketless = _without_buckets(self.variants, self.workloads)
        return tuple(
            Case(name, bucket)
            for name in self.workloads
            for bucket in ((NO_BUCKET,) if name in bucketless else self.buckets)
        )

    def schedule_of(self, workload: str) -> Schedule:
        """Return the schedule of a workload: its own, or else that of the spec."""
        return self.workloads[workload].schedule or self.schedule

    def expected_seconds(self, workload: str) -> float:
        """Return the estimated duration of a trial. The durations of finished trials replace it during a run."""
        load = self.workloads[workload]
        if load.why_alone or self.schedule_of(workload) == "sequential":
            return load.expected_seconds
        return load.expected_seconds - load.shared_seconds * (1 - 1 / len(self.variants))

    def params_of(self, variant: str) -> dict[str, str]:
        """Return the engine parameters of a variant: those of the spec, overridden by its own."""
        return {**self.engine.params, **self.variants[variant].params}

    def against_itself(self, variant: str | None = None) -> Spec:
        """Return the A/A experiment of this spec, which compares one variant with itself.

        The variant is the baseline by default. It gets two names. With `relink: auto` each of them gets its own link
        order in each block, as different binaries do: otherwise the noise floor would lack what the link order adds.
        """
        name = self.baseline if variant is None else variant
        original = self.variants[name]
        again = f"{name[: _LONGEST_VARIANT - len(AGAIN)]}{AGAIN}"
        shuffled = self.relink == "auto" and original.server is None
        return self.only_compared().model_copy(
            update={
                "name": f"{AA_PREFIX}{self.name}"[:_LONGEST_NAME],
                "description": f"A/A: {name} against itself, on the workloads of {self.name}",
                "variants": {name: original, again: original.model_copy(update={"name": again})},
                "baseline": name,
                "relink": "shuffle" if shuffled else self.relink,
                "expected_gains": (),
                "published": None,
            }
        )

    def only_compared(self) -> Spec:
        """Return the same comparison without the sampling check and CPU profiles."""
        loads = {
            name: workload.model_copy(update={"profile": None})
            for name, workload in self.workloads.items()
        }
        return self.model_copy(update={"sampling_check": False, "workloads": loads})

    def restricted(
        self, workloads: tuple[str, ...] | None, variants: tuple[str, ...] | None
    ) -> Spec:
        """Return the experiment with only these workloads and variants; the baseline always stays."""
        selected = None if variants is None else {*variants, self.baseline}
        loads = {k: v for k, v in self.workloads.items() if workloads is None or k in workloads}
        chosen = {k: v for k, v in self.variants.items() if selected is None or k in selected}
        published = self.published and self.published.restricted(chosen, loads)
        expected_gains = tuple(
            expected_gain
            for expected_gain in self.expected_gains
            if expected_gain.workload in loads
            and {expected_gain.variant, expected_gain.against or self.baseline} <= {*chosen}
        )
        return self.model_copy(
            update={
                "workloads": loads,
                "variants": chosen,
                "expected_gains": expected_gains,
                "published": published,
            }
        )
