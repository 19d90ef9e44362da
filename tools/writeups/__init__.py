"""Publish experiments as write-ups in `docs/experiments`: a page, its charts, and its kept results.

publish.py  keep the results of an experiment next to its page, and write page, charts and index
pages.py    read a page: its spec, its kept results and its regions
regions.py  generate the text of the regions
archive.py  the file of the kept results
"""
