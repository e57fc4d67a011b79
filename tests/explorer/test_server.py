"""The explorer as a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from dqam.errors import InputError
from dqam.explorer import serve
from dqam.release.release import Release


def test_serve_says_where_and_stops_when_told(first: Release, tmp_path: Path) -> None:
    first.save(tmp_path / "one.nc")
    code = (
        "import sys, dqam; from dqam.explorer import serve\n"
        "serve([('one', dqam.open(sys.argv[1]))], port=0, on_start=lambda url: print(url, flush=True))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "one.nc")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}api/releases").json()[0]["name"] == "one"
        with pytest.raises(InputError, match="choose another port or host"):
            serve([("one", first)], port=int(url.rstrip("/").rpartition(":")[2]))
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""
