"""Base class of the sections of a config, and the list of the configs that are shipped."""

from __future__ import annotations

from importlib import resources

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Section of a config: immutable, unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def shipped_recipes(package: str) -> dict[str, str]:
    """Name -> first comment line of every YAML file in a package, sorted by name."""
    files = (entry for entry in resources.files(package).iterdir() if entry.name.endswith(".yaml"))
    texts = {entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8") for entry in files}
    return {name: text.splitlines()[0].lstrip("# ") for name, text in sorted(texts.items())}
