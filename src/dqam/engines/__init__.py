"""Where the trips are and who adds them up: this machine, its disk with DuckDB, or a Spark cluster.

An engine delivers whole trips to one function, `dqam.statistics.aggregate.add_up`, and adds up what that returns. The
engine "local" is `dqam.privacy.aggregates.InMemory`. All give the same integers, whatever the order of the points, if
no two points of a trip have the same time.
"""
