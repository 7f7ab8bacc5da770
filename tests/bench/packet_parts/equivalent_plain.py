"""Mutants of plain modules that cannot change a result, with the reason: `Mutant.key` -> why."""

EQUIVALENT_PLAIN: dict[str, str] = {}
