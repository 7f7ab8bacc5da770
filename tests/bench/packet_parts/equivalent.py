"""Mutants that cannot change a result, with the reason: what `Mutant.key` gives -> why."""

EQUIVALENT: dict[str, str] = {}
