"""The command as a whole."""

from tests.commands import run


def test_help_teaches() -> None:
    research = ["reproduce"], ["audit"], ["generate"], ["generate", "city"], ["demo"]
    product = ["publish"], ["query"], ["flows"], ["export"], ["report"], ["serve"], ["ledger"]
    for command in ([], ["count"], ["inspect"], *research, *product):
        done = run(*command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: dqam")
        assert "  dqam " in done.stdout or command == ["demo"]
