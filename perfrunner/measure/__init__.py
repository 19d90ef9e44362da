"""From what the clients, the samplers and the engine said to the metrics of a trial."""
