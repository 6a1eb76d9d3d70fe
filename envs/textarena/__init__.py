"""Games of TextArena, another library, as environments."""
