"""Build artifacts from variants, and check that an artifact has the settings of its variant.

    artifact = build_variant(variant, source_dir, cache_dir, progress=print)
    other = relink(artifact, seed=1)  # the same program, its functions in another order
    path = host.deploy(artifact.path, artifact.build_id)
    settings = check(host, path, variant, spec.engine, params=spec.params_of(variant.name))

`build_variant` and `relink` raise BuildError; `check` raises SettingsCheckError (a setting differs) or
HostError.
"""

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from perfrunner.build.layout import relink
from perfrunner.build.settings_check import SettingsCheck, check

__all__ = ["Artifact", "SettingsCheck", "build_variant", "check", "relink"]
