"""The form of a row of the tables of settings and attributes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """A row: name, unit ('' for text), what it means, and what the places of a tuple are."""

    name: str
    unit: str
    meaning: str
    indexed_by: str = ""
