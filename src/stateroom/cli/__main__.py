"""Lets ``python -m stateroom.cli`` do what ``stateroom`` does."""

from stateroom.cli.main import main

main()
