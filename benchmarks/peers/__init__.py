"""dalembert beside its peers: the same problems, the same accuracy, one run. Start it with `python benchmarks/peers`."""
