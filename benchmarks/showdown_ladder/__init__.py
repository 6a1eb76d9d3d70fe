"""A player on the ladder of a Pokémon Showdown server."""
