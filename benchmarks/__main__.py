"""Run every benchmark, each in a process of its own: python -m benchmarks [NAME ...]."""

import subprocess
import sys

NAMES = (
    "parquet_to_histogram",
    "person_counts",
    "distinct_counts",
    "area_counts",
    "histogram_answers",
    "zones",
    "porto_parsing",
    "pairwise_consistency",
    "current_projection",
    "dqam_run",
    "flux_run",
    "flux_accuracy",
    "area_accuracy",
    "slices",
    "flows",
    "prior",
    "forecast_table",
    "histogram_floor",
    "explorer_load",
    "start",
    "engines",
)

if __name__ == "__main__":
    names = sys.argv[1:] or NAMES
    failed = [name for name in names if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode]
    sys.exit(f"Failed: {', '.join(failed)}" if failed else 0)
