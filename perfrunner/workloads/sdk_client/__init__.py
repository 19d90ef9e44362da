"""The program behind `type: sdk`: one process of an application that uses the Couchbase Python SDK.

perfrunner copies this package to the load clients and runs it there with their Python: it needs the standard library
and the package `couchbase`, and nothing else of perfrunner. Each process has a connection and a range of keys of its
own and one operation under way.

    populate   every key once, in batches, as version 0
    access     reads and writes of random keys; every read is compared with what was last written
    verify     every key is read and compared; the versions come from the file that `access` left
    copies     a sample of any documents is read from every node that has a copy, and compared with what DCP showed

What is stored under a key in a version follows from the seed, so whoever knows the versions knows all contents.
"""
