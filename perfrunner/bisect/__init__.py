"""Find the commit at which a metric changed; each step is a comparison with the good revision.

search = Search(repository, state, measure, keep)
for step in search.run(): ...
"""

from perfrunner.bisect.search import Search
from perfrunner.bisect.state import BisectState, Step

__all__ = ["BisectState", "Search", "Step"]
