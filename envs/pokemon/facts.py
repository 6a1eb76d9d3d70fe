"""Facts that follow from a view without guessing: types, names, the opponent on the field."""

from __future__ import annotations

from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import Mine, OpposingPokemon, Own, SideView, Theirs

STATS = ("atk", "def", "spa", "spd", "spe")


def types(dex: Dex, mon: Own | OpposingPokemon, player: Mine | Theirs | None = None) -> tuple[str, ...]:
    """Current types of a Pokémon.

    Give `player` if it is active, because its volatiles may change its types.
    """
    tera = mon.get("tera")
    if mon.get("terastallized") and tera and tera != "stellar":
        return (str(tera),)
    name = mon["species"]
    added_types: tuple[str, ...] = ()
    if player is not None and player["volatiles"]:
        held = player["volatiles"]
        for id in ("transform", "formechange"):
            if len(held.get(id, ())) > 1:
                name = held[id][1]
        if len(held.get("typeadd", ())) > 1:
            added_types = (str(held["typeadd"][1]),)
        if len(held.get("typechange", ())) > 1:
            return (*(part for part in str(held["typechange"][1]).split("/") if part), *added_types)
    species = dex.species.get(name)
    return (*(species["types"] if species else ()), *added_types)


def active(player: Mine) -> Own | None:
    """The own Pokémon on the field."""
    return player["team"][player["active"]] if player["active"] >= 0 else None


def opponent(view: SideView) -> OpposingPokemon | None:
    """The opponent's Pokémon on the field."""
    player = view["foe"]
    return player["team"][player["active"]] if player["active"] >= 0 else None


def move_type(dex: Dex, id: str, mon: Own | OpposingPokemon | None = None) -> str:
    """Type of a move.

    Hidden Power's is by its name, Tera Blast's that of a terastallized Pokémon.
    """
    if id.startswith("hiddenpower") and len(id) > 11:
        return id[11:].rstrip("0123456789")
    if id == "terablast" and mon is not None and mon.get("terastallized") and mon.get("tera"):
        return str(mon["tera"])
    move = dex.moves.get(id)
    return move["type"] if move else ""


def known(dex: Dex, id: str) -> str:
    """The id under which the tables hold a move: Hidden Power without its type and power."""
    return "hiddenpower" if id.startswith("hiddenpower") and id not in dex.moves else id
