"""Spark sessions: open files as Spark data frames, and turn Spark's errors into one sentence."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from dqam.errors import InputError
from dqam.runtime import stopping
from dqam.sources.parquet_table import ParquetTable
from dqam.sources.reading import open_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frame_of(path: str | os.PathLike[str]) -> DataFrame:
    """Open Parquet files as a data frame: those that `dqam.read` finds at a path, or all below a URL.

    Uses the active Spark session, or starts one.
    """
    paths = [str(path)]
    if "://" not in str(path):
        table = open_path(Path(path))
        if not isinstance(table, ParquetTable):
            raise InputError(f"{path} is not Parquet; give Parquet files or a Spark data frame to Spark.")
        paths = [f"file://{file.absolute()}" for file in table.paths]  # whatever Spark's default file system is
    for each in paths:
        if odd := set(each) & set("*?[]{}\\"):
            raise InputError(f"{each}: Spark would interpret {min(odd)} in the name as a pattern; rename it.")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError("Spark is not installed: pip install 'dqam[spark]'.") from None
    begins = SparkSession.getActiveSession() is None and not os.environ.get("SPARK_REMOTE")
    if begins and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise InputError("Spark needs Java 17 or later, which was not found; install it, or set JAVA_HOME.")
    before = os.umask(0o077)  # files of a session that starts here are readable by this user only
    try:
        with spark_errors(), stopping.delay_signals() if begins else nullcontext():  # no half-started session
            builder = SparkSession.builder
            if begins:  # with this Python, and without Spark's own messages between our progress bars
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
                builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF")
            reader = builder.getOrCreate().read
            return reader.option("recursiveFileLookup", "true").parquet(*paths)  # no columns from folder names
    finally:
        os.umask(before)


def use_task_cores() -> None:
    """Use no more threads than the cores that Spark has given this task."""
    from pyspark import TaskContext

    os.environ["DQAM_THREADS"] = str(TaskContext.get().cpus())


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn errors of Spark into an `InputError` of one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        before: BaseException | None = error
        while before := before and before.__context__:
            if isinstance(before, KeyboardInterrupt | SystemExit):  # an interrupt caused the error
                raise before from None
        words = str(error).strip().splitlines() or [type(error).__name__]
        told = [line for line in words if re.match(r"\w*(Error|Exception): ", line)]  # errors of a Python worker
        hint = (
            "; its workers need dqam and the same Python as the driver (PYSPARK_PYTHON)"
            if "'dqam'" in str(told)
            else ""
        )
        raise InputError(f"Spark failed ({(told or words)[-1 if told else 0][:200]}){hint}.") from error
