"""What changed from one version of the store's tables to the next, as Alembic revisions."""
