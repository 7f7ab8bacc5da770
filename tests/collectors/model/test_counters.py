"""Reset, wrap and saturation are three different things."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.counters import delta
from collectors.model.metric import Column


def column(width: int = 64, overflow: str = "wraps", number: str = "int") -> Column:
    return Column("m", "counter", "test", width, overflow, Fraction(1), number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("width", "overflow", "before", "after", "value", "event"),
    [
        (64, "wraps", 5, 7, 2, "none"),
        (64, "wraps", 100, 5, 5, "reset"),  # peers U4
        (64, "wraps", 2**64 - 1, 0, 0, "reset"),
        (32, "wraps", 2**32 - 10, 5, 15, "wrap"),
        (32, "wraps", 100, 5, 5, "reset"),
        (8, "wraps", 250, 4, 10, "wrap"),
        (16, "saturates", 65530, 65535, 5, "saturated"),
        (16, "saturates", 65535, 65535, 0, "saturated"),
        (16, "saturates", 65535, 3, 3, "reset"),
        (4, "saturates", 15, 15, 0, "saturated"),
        (4, "saturates", 2, 5, 3, "none"),
    ],
)
def test_growth_between_two_readings(width, overflow, before, after, value, event):
    grown = delta(column(width, overflow), before, after)
    assert (grown.value, grown.event) == (value, event)
    assert grown.exact == (event in ("none", "wrap"))


def test_a_new_incarnation_is_a_reset_even_where_the_number_grew():
    grown = delta(column(), 5, 100, same_incarnation=False)
    assert (grown.value, grown.event) == (100, "reset")


def test_floats_only_reset():
    assert delta(column(32, number="float"), 2.5, 1.0).event == "reset"
    assert delta(column(32, number="float"), 1.0, 2.5).value == 1.5


@given(
    width=st.sampled_from([8, 16, 24, 32, 48]),
    start=st.integers(0, 2**48),
    growth=st.integers(0, 2**48),
)
def test_wrapping_hides_no_growth_below_half_the_range(width, start, growth):
    modulus = 1 << width
    growth %= modulus // 2
    grown = delta(column(width), start % modulus, (start + growth) % modulus)
    assert grown.value == growth
    assert grown.event in ("none", "wrap")


@given(before=st.integers(0, 2**64 - 1), after=st.integers(0, 2**64 - 1))
def test_growth_is_never_negative_and_never_near_two_to_the_64(before, after):
    grown = delta(column(), before, after)
    assert 0 <= grown.value <= after


def test_words_stay_exact_in_the_unit():
    words = Column("m", "counter", "test", 64, "saturates", Fraction(4))
    assert words.to_unit(2**64 - 1) == 4 * (2**64 - 1)
    ms = Column("m", "gauge", "test", scale=Fraction(1, 1000))
    assert ms.to_unit(10) == 0.01
