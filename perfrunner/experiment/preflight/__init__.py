"""Prepare a run: open, describe and assess the hosts; build, deploy and check the variants."""
