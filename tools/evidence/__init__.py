"""Whether the tool tells the truth: long measurements with perfrunner itself, whose right answer is known.

Each study is a list of ordinary specs that the ordinary runner runs. What they measured is kept in the tree, block by
block, and every figure of docs/explanation/accuracy.md is computed from it. Start with `scripts/evidence --help`.
"""
