"""Export measured values as flat tables for spreadsheets, notebooks and databases (docs/how-to/export.md)."""

from __future__ import annotations

from perfrunner.export.tables import TABLES, Column, Table, rows
from perfrunner.export.write import csv_text, write_tables

__all__ = ["TABLES", "Column", "Table", "csv_text", "rows", "write_tables"]
