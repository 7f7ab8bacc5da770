"""What is missing, by input: that of the most rules first, each rule once."""

from tuner.cli.show import cannot_tell
from tuner.diagnosis.blind import Blind, blind_spots
from tuner.diagnosis.finding import Verdict


def blind(rule, *missing):
    return Verdict(rule, "cannot_tell", (), missing)


def test_rules_that_lack_the_same_are_one_line():
    verdicts = [blind("a", "x"), blind("b", "y", "x"), Verdict("c", "quiet"), blind("d", "x")]
    assert blind_spots(verdicts) == [Blind("x", ("a", "b", "d")), Blind("y", ("b",))]
    [text] = cannot_tell(verdicts)
    assert text.plain.splitlines() == [
        "cannot tell by 3 of 4 rules, which need:", "  x (a, b, d)", "  y (b)",
    ]  # fmt: skip


def test_many_inputs_do_not_swamp_the_answer():
    [text] = cannot_tell([blind(f"rule{n}", f"input {n}") for n in range(20)])
    lines = text.plain.splitlines()
    assert len(lines) == 8
    assert lines[-1] == "  and 14 more inputs: `tuner diagnose` names all"


def test_nothing_missing_is_not_mentioned():
    assert cannot_tell([Verdict("c", "quiet")]) == []
