"""Studies of accuracy: long measurements with perfrunner itself whose correct result is known.

Each study is a list of ordinary specs. Their results are kept in the repository, block by block, and every figure of
docs/explanation/accuracy.md is computed from them. Start with `scripts/evidence --help`.
"""
