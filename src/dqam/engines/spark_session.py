"""Spark's session and its errors: files as data frames, and what Spark has to say in one sentence."""

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
    """Parquet files by the session of Spark that there is, or a new one: those that `dqam.read` finds at a path, or all
    below a URL."""
    paths = [str(path)]
    if "://" not in str(path):
        table = open_path(Path(path))
        if not isinstance(table, ParquetTable):
            raise InputError(f"{path} is not Parquet; give Parquet files or a Spark data frame to Spark.")
        paths = [f"file://{file.absolute()}" for file in table.paths]  # whatever Spark's own file system is
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
    before = os.umask(0o077)  # what a session that begins here writes is for this user alone
    try:
        with spark_errors(), stopping.later() if begins else nullcontext():  # as half a session would stay
            builder = SparkSession.builder
            if begins:  # with this Python, and no words of its own beside our bars
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
                builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF")
            reader = builder.getOrCreate().read
            return reader.option("recursiveFileLookup", "true").parquet(*paths)  # and no columns from folders' names
    finally:
        os.umask(before)


def use_task_cores() -> None:
    """Threads for the cores that Spark has given this task, and no more."""
    from pyspark import TaskContext

    os.environ["DQAM_THREADS"] = str(TaskContext.get().cpus())


@contextmanager
def spark_errors() -> Iterator[None]:
    """What Spark has to say, in a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        before: BaseException | None = error
        while before := before and before.__context__:
            if isinstance(before, KeyboardInterrupt | SystemExit):  # which ended more than was still in use
                raise before from None
        words = str(error).strip().splitlines() or [type(error).__name__]
        told = [line for line in words if re.match(r"\w*(Error|Exception): ", line)]  # of a Python worker
        hint = (
            "; its workers need dqam and the same Python as the driver (PYSPARK_PYTHON)"
            if "'dqam'" in str(told)
            else ""
        )
        raise InputError(f"Spark failed ({(told or words)[-1 if told else 0][:200]}){hint}.") from error
