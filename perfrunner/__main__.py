"""`python -m perfrunner`: the same command line as the console script."""

from __future__ import annotations

from perfrunner.cli import main

if __name__ == "__main__":
    main()
