"""Build artifacts from variants, and check that an artifact has the settings of its variant.

    artifact = build_variant(variant, source_dir, cache_dir, progress=print)
    other = relink(artifact, seed=1)  # the same program, its functions in another order
    path = host.deploy(artifact.path, artifact.build_id)
    settings = check(host, path, variant, spec.engine, params=spec.params_of(variant.name)).settings

`build_variant` (builder.py) and `relink` (layout.py) raise BuildError; `check` (settings_check.py) raises
SettingsCheckError (a setting differs) or HostError.
"""
