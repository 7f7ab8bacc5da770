"""Every root cause has a rule or says what it lacks, and the page says what the rules say."""

from pathlib import Path

import tuner.diagnosis.coverage as table
from tuner.diagnosis.registry import RULES

PAGE = Path(table.__file__).with_name("RULES.md")


def test_every_cause_is_answered_by_a_rule_or_listed_with_what_it_lacks():
    assert list(table.CAUSES) == [f"R{number}" for number in range(1, 59)]
    answered = {number for rule in RULES for number in rule.answers}
    assert answered <= set(table.CAUSES)
    assert answered | set(table.NOT_FED) == set(table.CAUSES)
    assert not answered & set(table.NOT_FED)


def test_the_page_is_written_from_the_registry():
    again = "run: python -m tuner.diagnosis.coverage > tuner/diagnosis/RULES.md"
    assert PAGE.read_text(encoding="utf-8") == table.rules_document(RULES), again


def test_ids_are_unique():
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
