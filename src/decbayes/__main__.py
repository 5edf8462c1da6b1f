"""`python -m decbayes` is the command `decbayes`."""

from decbayes.cli import main

main()
