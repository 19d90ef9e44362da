"""One cell of one block: fresh engines, the verbs of a scenario, a clean stop, and whether it counts."""
