"""`python -m palaver` is the `palaver` command."""

from palaver.cli import main

main()
