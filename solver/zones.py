"""Search zones: where points of a frontier with any number of axes may still be missing.

A set of points leaves open the amounts that none of them reaches or betters on every axis. That region is a union of
boxes {z : z < u in every component}, one per local upper bound u, its corner. A new point p cuts every box that holds
it into one box per axis j, whose corner has u_j = p_j: what p does not cover is better than p on some axis. Boxes
inside another box are dropped. (Klamroth, Lacour, Vanderpooten: On the representation of the search region in
multi-objective optimization, European Journal of Operational Research 245, 2015.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Corner = tuple[int, ...]


class Zones:
    """The open search zones of a frontier, and those that are proved to be empty.

    Parameters
    ----------
    top
        A corner above all amounts.

    Attributes
    ----------
    open
        Corners of zones to be searched; together with `closed` they cover all that no point covers.
    closed
        Corners of zones without a point.
    """

    def __init__(self, top: Sequence[int]) -> None:
        self.open: list[Corner] = [tuple(top)]
        self.closed: list[Corner] = []

    def take(self, width: Callable[[Corner], int]) -> Corner:
        """Return the widest open zone, the first in order of corners among equals."""
        return min(self.open, key=lambda corner: (-width(corner), corner))

    def close(self, corner: Corner) -> None:
        """Note that a zone holds no point; zones inside it hold none either."""
        self.closed.append(corner)
        self.open = [other for other in self.open if not _inside(other, corner)]

    def put_aside(self, corner: Corner) -> None:
        """Take a zone out of the search: nothing is known about it."""
        self.open.remove(corner)

    def split(self, point: Sequence[int]) -> None:
        """Cut what `point` covers off every open zone."""
        kept = [corner for corner in self.open if not _holds(corner, point)]
        parts = {
            (*corner[:axis], point[axis], *corner[axis + 1 :])
            for corner in self.open
            if _holds(corner, point)
            for axis in range(len(corner))
        }
        for part in sorted(parts):
            others = [*kept, *self.closed, *(parts - {part})]
            if not any(_inside(part, other) for other in others):
                kept.append(part)
        self.open = kept


def _inside(corner: Corner, other: Corner) -> bool:
    """Return whether the zone of `corner` lies in that of `other` (a zone lies in itself)."""
    return all(mine <= theirs for mine, theirs in zip(corner, other, strict=True))


def _holds(corner: Corner, point: Sequence[int]) -> bool:
    """Return whether a point lies in a zone."""
    return all(amount < edge for amount, edge in zip(point, corner, strict=True))
