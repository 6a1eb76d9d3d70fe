"""Facts that follow from a view without guessing: types, names, the opponent on the field."""

from __future__ import annotations

from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import Mine, OpposingPokemon, Own, SideView, Theirs

STATS = ("atk", "def", "spa", "spd", "spe")


def types(dex: Dex, mon: Own | OpposingPokemon, seat: Mine | Theirs | None = None) -> tuple[str, ...]:
    """Current types of a Pokémon; `seat` if it is active, whose volatiles may change its types."""
    tera = mon.get("tera")
    if mon.get("terastallized") and tera and tera != "stellar":
        return (str(tera),)
    name = mon["species"]
    more: tuple[str, ...] = ()
    if seat is not None and seat["volatiles"]:
        held = seat["volatiles"]
        for id in ("transform", "formechange"):
            if len(held.get(id, ())) > 1:
                name = held[id][1]
        if len(held.get("typeadd", ())) > 1:
            more = (str(held["typeadd"][1]),)
        if len(held.get("typechange", ())) > 1:
            return (*(part for part in str(held["typechange"][1]).split("/") if part), *more)
    found = dex.species.get(name)
    return (*(found["types"] if found else ()), *more)


def active(seat: Mine) -> Own | None:
    """The own Pokémon on the field."""
    return seat["team"][seat["active"]] if seat["active"] >= 0 else None


def opponent(view: SideView) -> OpposingPokemon | None:
    """The opponent's Pokémon on the field."""
    seat = view["foe"]
    return seat["team"][seat["active"]] if seat["active"] >= 0 else None


def move_type(dex: Dex, id: str, mon: Own | OpposingPokemon | None = None) -> str:
    """The type a move has, Hidden Power's by its name, Tera Blast's of one that has terastallized."""
    if id.startswith("hiddenpower") and len(id) > 11:
        return id[11:].rstrip("0123456789")
    if id == "terablast" and mon is not None and mon.get("terastallized") and mon.get("tera"):
        return str(mon["tera"])
    found = dex.moves.get(id)
    return found["type"] if found else ""


def known(dex: Dex, id: str) -> str:
    """The id under which the tables hold a move: Hidden Power without its type and power."""
    return "hiddenpower" if id.startswith("hiddenpower") and id not in dex.moves else id
