"""Requests a second that the explorer answers on loopback, against an app that answers a constant."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import build, claim, options
from dqam import cities
from dqam.explorer.server import run, serve
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.geometry.walks import walk
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.reading import open_release
from dqam.release.release import Release

CONNECTIONS = 16
MANY = 1_000  # rectangles of a request for many

CONSTANT = b'{"value":14037.317793743685,"low":13233.069121194296,"high":14841.566466293074}'


@dataclass
class Load:
    """What came back in so many seconds: how long each request took, and how many were not answered with 200."""

    seconds: float
    took: list[float] = field(default_factory=list)
    errors: int = 0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.took) / self.seconds

    def row(self, name: str, base: Load) -> str:
        """A line of the table."""
        p50, p99 = np.percentile(self.took, [50, 99]) * 1e3
        return f"  {name:<28}{self.rate:>11,.0f}{p50:>11.2f}{p99:>11.2f}{self.errors:>9}{self.rate / base.rate:>12.2f}"


async def constant(scope: Any, receive: Any, send: Any) -> None:
    """The least that an app can do."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(CONSTANT)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": CONSTANT})


def run_server(what: str) -> None:
    """Serve the file of a release, or the constant; the address is printed."""
    if what == "constant":
        run(constant, "127.0.0.1", 0, lambda address: print(address, flush=True))
    else:
        serve([("city", open_release(what))], port=0, on_start=lambda address: print(address, flush=True))


@contextmanager
def server(what: str) -> Iterator[int]:
    """A server in a process of its own, by its port."""
    command = [sys.executable, "-m", "benchmarks.explorer_load", "--serve", what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
        finally:
            process.terminate()


def load(port: int, requests: list[tuple[str, str, bytes | None]], seconds: float) -> Load:
    """All connections ask one request after the other, for so many seconds."""
    loads = [Load(seconds) for _ in range(CONNECTIONS)]
    end = time.perf_counter() + seconds

    def ask(mine: Load, at: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while (began := time.perf_counter()) < end:
            method, path, body = requests[at % len(requests)]
            at += CONNECTIONS
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            answer.read()
            mine.took.append(time.perf_counter() - began)
            mine.errors += answer.status != 200
        connection.close()

    threads = [threading.Thread(target=ask, args=(mine, at)) for at, mine in enumerate(loads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(seconds, [took for one in loads for took in one.took], sum(one.errors for one in loads))


def make_release(path: Path, tiny: bool) -> Release:
    """A release of generated trips, with noise from a seed."""
    count, resolution = (300, 4) if tiny else (20_000, 8)
    grid = Grid.over(cities.BOUNDS, resolution)
    trips = next(cities.city_trips(count, seed=0))
    release = Plan.of(grid, 1).release(Curator(walk(trips, grid), Budget(1), SeededNoise(0)), "a benchmark")
    release.save(path, overwrite=True)
    return release


def main(*arguments: str) -> None:
    parser = options(__doc__)
    parser.add_argument("--serve", metavar="RELEASE", help="serve this release, or `constant`, and measure nothing")
    given = parser.parse_args(arguments or None)
    if given.serve:
        run_server(given.serve)
        return
    path, lasting = build() / "explorer.nc", 0.1 if given.tiny else 10
    release = make_release(path, given.tiny)
    bounds = Snapped.of(random_rectangles(release.grid, MANY, np.random.default_rng(0)), release.grid).bounds
    one: list[tuple[str, str, bytes | None]] = [
        ("GET", f"/api/releases/0/count?west={w!r}&south={s!r}&east={e!r}&north={n!r}", None)
        for w, s, e, n in bounds.tolist()
    ]
    body = json.dumps({"rectangles": bounds.tolist()}).encode()
    began, asked = time.perf_counter(), 200
    for rectangle in bounds[:asked].tolist():
        release.count(*rectangle, crs="EPSG:4326")
    alone = asked / (time.perf_counter() - began)
    with server("constant") as port:
        base = load(port, [("GET", "/", None)], lasting)
    with server(str(path)) as port:
        single = load(port, one, lasting)
        many = load(port, [("POST", "/api/releases/0/counts", body)], lasting)
        listed = load(port, [("GET", "/api/releases", None)], lasting)
    print(f"explorer, {CONNECTIONS} connections, {lasting} s each:")
    print(f"  {'':<28}{'requests/s':>11}{'p50 ms':>11}{'p99 ms':>11}{'errors':>9}{'/ constant':>12}")
    print(base.row("a constant", base))
    print(listed.row("list of releases", base))
    print(single.row("count", base))
    print(many.row(f"counts of {MANY:,} rectangles", base))
    print(f"  {many.rate * MANY:,.0f} rectangles a second; {alone:,.0f} counts a second by the library alone")
    claim("errors", single.errors + many.errors + listed.errors, 0, at_most=True)
    claim("counts a second / those of the library alone", single.rate / alone, 0.5)
    claim("list of releases / a constant, requests a second", listed.rate / base.rate, 0.2)


if __name__ == "__main__":
    main()
