"""Teams that reason beside one agent: every row of the table trained and played on the same held-out problems."""
