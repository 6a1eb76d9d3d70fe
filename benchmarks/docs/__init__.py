"""Pages of results: their tables and their sentences with numbers are generated from stored files.

`python -m palaver.benchmarks.docs` updates the text between `<!-- computed: NAME -->` and `<!-- end -->` in
docs/lab.md, docs/comparison.md and docs/demo.md, and all of LEADERBOARD.md; `--check` names the pages that are out of
date.
"""
