"""The pages of results: their tables and their sentences with figures are written from kept files.

`python -m palaver.benchmarks.docs` renews what is between `<!-- computed: NAME -->` and `<!-- end -->` in docs/lab.md,
docs/comparison.md, docs/demo.md and docs/layout.md, and all of LEADERBOARD.md; `--check` names the pages that are out
of date.
"""
