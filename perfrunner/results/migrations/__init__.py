"""Alembic revisions that upgrade the store's tables from one version to the next."""
