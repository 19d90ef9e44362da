"""Whether the tool tells the truth: long measurements with perfrunner itself, whose right answer is known.

Each study is a list of ordinary specs that the ordinary runner runs. What they measured is kept in the tree, block by
block, and every figure of docs/statistics.md is computed from what is kept. `scripts/evidence --help` starts here.
"""
