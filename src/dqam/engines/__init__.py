"""Engines that compute sums over trips for data that does not fit in memory: DuckDB on disk, and Spark clusters.

An engine passes whole trips to one function, `dqam.statistics.aggregate.add_up`, and adds up the results. The engine
"local" is `dqam.privacy.aggregates.InMemory`. If no two points of a trip have the same time, all engines return the
same integers, whatever the order of the points.
"""
