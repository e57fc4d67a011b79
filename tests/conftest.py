"""What tests share: their own PostgreSQL server and Spark session."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "open-sesame"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # sessions of tests end before more compiling pays off


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A server in a temporary folder, reached by a socket there, with fsync on."""
    places = os.pathsep.join([*os.get_exec_path(), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
    initdb, pg_ctl = (shutil.which(name, path=places) for name in ("initdb", "pg_ctl"))
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL is not installed: no initdb and pg_ctl on PATH or under /usr/lib/postgresql")
    with tempfile.TemporaryDirectory(prefix="dqam-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        who: dict[str, Any] = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses
            user = next(user for user in pwd.getpwall() if user.pw_name in ("postgres", "nobody"))
            who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)

        def run(tool: str, *options: str) -> None:
            with Path(folder, "words").open("w+") as words:  # not a pipe, which the server would keep open
                done = subprocess.run(
                    [tool, "-D", f"{folder}/data", *options], cwd=folder, stdout=words, stderr=words, **who
                )
                words.seek(0)
                assert done.returncode == 0, words.read()

        Path(folder, "password").write_text(PASSWORD)
        run(initdb, "-U", "dqam", "-A", "md5", f"--pwfile={folder}/password", "-E", "UTF8", "--no-sync")
        run(pg_ctl, "-w", "-l", f"{folder}/log", "-o", f"-k {folder} -c listen_addresses='' -c fsync=on", "start")
        try:
            yield f"postgresql://dqam:{PASSWORD}@/postgres?host={folder}"
        finally:
            run(pg_ctl, "-w", "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A real Spark session on this machine, in which a failed task is tried again."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'dqam[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java, which Spark needs, is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    builder = sql.SparkSession.builder.master("local[2,3]").appName("dqam tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
