"""Functions of the package are imported when they are used, so that a page can be written without a web framework."""

import subprocess
import sys

import pytest

import dqam.explorer


def test_a_page_needs_no_web_framework() -> None:
    code = "import sys; from dqam.explorer import write_page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"fastapi", "starlette", "pydantic", "uvicorn"} & set(loaded)


def test_every_function_is_there_and_others_are_not() -> None:
    assert all(callable(getattr(dqam.explorer, name)) for name in dqam.explorer.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'odd'"):
        dqam.explorer.odd  # noqa: B018
