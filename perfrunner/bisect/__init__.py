"""Find the commit at which a metric changed; each step is a comparison with the good revision.

search = Search(repository, state, measure, keep)     # search.py
for step in search.run(): ...                         # compare.py measures
"""
