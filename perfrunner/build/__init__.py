"""Builds: from a variant to an artifact, and the proof that the artifact is what the variant asked for.

    artifact = build_variant(variant, source_dir, cache_dir, progress=print)
    other = relink(artifact, seed=1)  # the same program, its functions in another order
    path = host.deploy(artifact.path, artifact.build_id)
    proof = prove(host, path, variant, spec.engine, params=spec.params_of(variant.name))

`build_variant` raises BuildError, `relink` too, `prove` ProofError (a setting does not read back) or HostError.
"""

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from perfrunner.build.layout import relink
from perfrunner.build.proof import Proof, prove

__all__ = ["Artifact", "Proof", "build_variant", "prove", "relink"]
