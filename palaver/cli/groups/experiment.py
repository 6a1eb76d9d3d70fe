"""`palaver experiment`: many runs and one table."""

from __future__ import annotations

from palaver.cli import options
from palaver.cli.groups import curriculum, marlhf, matrix_games, reasoning

HELP = """Run an experiment of several trainings, and print its table.

The same command, or the folder in place of the recipe, resumes an interrupted one.

[bold]Examples[/bold]

[cyan]palaver experiment matrix-games[/cyan]  [dim]# every algorithm in every matrix game[/dim]

[cyan]palaver experiment reasoning --out runs/maths[/cyan]  [dim]# teams and one agent on the same problems[/dim]

[cyan]palaver experiment marlhf arxiv-marlhf[/cyan]  [dim]# a reward model, and a team trained on it[/dim]

[cyan]palaver experiment curriculum run gen1ou-nano[/cyan]  [dim]# a student of battles, in stages[/dim]
"""

app = options.group(help=HELP)
app.command(help=matrix_games.HELP)(matrix_games.matrix_games)
app.command(help=reasoning.HELP)(reasoning.reasoning)
app.command(help=marlhf.HELP)(marlhf.marlhf)
app.add_typer(curriculum.app, name="curriculum")
