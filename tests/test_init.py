"""The public API."""

import pytest

import dqam


def test_the_api_is_seven_names() -> None:
    assert set(dir(dqam)) == {*dqam.__all__, "__version__"}
    assert len(dqam.__all__) == 7
    for name in dqam.__all__:
        assert getattr(dqam, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'publicise'"):
        dqam.publicise  # noqa: B018
