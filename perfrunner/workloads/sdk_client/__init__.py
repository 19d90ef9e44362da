"""The client program of the `sdk` workload: one process of an application that uses the Couchbase Python SDK.

perfrunner copies this package to the load clients and runs it there with their Python. It needs only the standard
library and the package `couchbase`. Each process has its own connection and range of keys, and one operation in flight.

    populate   write every key once, in batches, as version 0
    access     read and write random keys; compare every read with the last write
    verify     read every key and compare it; the versions come from a file that `access` wrote
    copies     read a sample of documents from every node that has a copy; compare it with the DCP stream

The content of a key in a version follows from the seed, so the versions determine all contents.
"""
