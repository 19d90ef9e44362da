"""A file a version; `revision` is the version that it makes, `down_revision` the one that it begins from."""
