"""Finding the commit at which a metric changed: each step is a real comparison with the good end.

search = Search(repository, state, judge, keep)
for step in search.steps(): ...
"""

from perfrunner.bisect.search import Search
from perfrunner.bisect.state import BisectState, Step

__all__ = ["BisectState", "Search", "Step"]
