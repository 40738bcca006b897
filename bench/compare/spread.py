"""Figures that were measured in several rounds: the median, and how far the rounds lie apart.

The spread is half the distance between the quartiles, as a share of the median: half of the rounds lie about so close
to it. A ratio is one of the same round's figures, so that what else the machine did meets both.
"""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Measured:
    median: float
    spread: float


def measured(values):
    values = list(values)
    median = statistics.median(values)
    if len(values) < 2 or median == 0:
        return Measured(median, 0.0)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Measured(median, (upper - lower) / 2 / abs(median))


def ratio(values, others):
    """`values` and `others` are by round."""
    return measured(value / other for value, other in zip(values, others))


def with_spread(text, found):
    percent = 100 * found.spread
    return f"{text} ±{percent:.1f} %" if percent < 0.95 else f"{text} ±{percent:.0f} %"


def milliseconds(seconds, digits=1):
    """Of `seconds` by round."""
    found = measured(seconds)
    return with_spread(f"{1e3 * found.median:.{digits}f}", found)


def multiple(values, others):
    """How often `others` go into `values`; a dash where there are none."""
    if not others:
        return "–"
    if values == others:
        return "1"
    found = ratio(values, others)
    return with_spread(f"{found.median:.2f}", found)
