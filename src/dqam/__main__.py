"""Entry point of `python -m dqam`."""

from dqam.cli import main

main()
