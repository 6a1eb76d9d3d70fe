"""Generators of the computed pages; not part of the installed package.

`python -m docs.build` updates the pages of environments, workflows and algorithms, the computed parts of the pages of
results, and LEADERBOARD.md; `--check` names those that are out of date and exits with code 1. Figures of environments
are drawn by `python -m docs.build.env_figures`.
"""
