"""New-token ratio: the share of the declared outputs that SGLang expects its running requests still to produce."""

from __future__ import annotations

from fractions import Fraction
from math import lcm


class NewTokenRatio:
    """A share that falls with every decode and jumps after a retraction. Exact: no rounding decides an admission.

    Parameters
    ----------
    initial
        Where it starts, and where it is set back to when the engine idles, >= 0; above 1 counts as 1.
    floor_factor
        It does not fall below this times `initial`; at most 1.
    decay_steps
        Decodes that it takes from `initial` down to the floor, >= 1.

    Examples
    --------
    >>> ratio = NewTokenRatio(0.7, 0.14, 600)
    >>> ratio.decay(600)
    >>> ratio.value == Fraction("0.098")
    True
    """

    def __init__(self, initial: float, floor_factor: float, decay_steps: int) -> None:
        self._initial = min(Fraction(1), Fraction(str(initial)))
        self._floor = min(self._initial, self._initial * Fraction(str(floor_factor)))
        self._step = (self._initial - self._floor) / decay_steps
        self._set(self._initial)

    @property
    def value(self) -> Fraction:
        """The ratio."""
        return Fraction(self._part, self._whole)

    def _set(self, value: Fraction) -> None:
        """Count in units in which the value, the floor and the step are whole numbers: a decay is frequent."""
        self._whole = lcm(value.denominator, self._floor.denominator, self._step.denominator)
        self._part, self._least, self._fall = (int(x * self._whole) for x in (value, self._floor, self._step))

    def reset(self) -> None:
        """Start again: the engine idles."""
        self._set(self._initial)

    def decay(self, decodes: int) -> None:
        """Take note of iterations that only decoded, and retracted nobody.

        After a retraction of very young requests it may lie below the floor; the next decode lifts it there.
        """
        self._part = max(self._part - decodes * self._fall, self._least)

    def retracted(self, emitted: int, declared: int, headroom: int) -> None:
        """Reckon anew from the requests that stayed.

        Parameters
        ----------
        emitted, declared
            Their outputs so far and their declared outputs, in tokens.
        headroom
            Tokens that they shall be able to produce from now on.
        """
        self._set(min(Fraction(1), Fraction(emitted + headroom, declared + 1)))
