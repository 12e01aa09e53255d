"""Extending labels by batches; the theory, and what labels are, stand in `tests.judges.labels`."""

from __future__ import annotations

from collections.abc import Sequence

from instances.instance import Instance
from tests.judges.batches import Batch
from tests.judges.labels import FIRST_TOKEN, LAST_TOKEN, NEVER, Bounds, Loose, Row, Tight, grown


class Clock:
    """Extends labels by batches.

    Parameters
    ----------
    instance
        The instance.
    bounds
        What a timing must obey.
    track
        Objectives whose amounts labels carry. `max_tbt` only where all arrivals are equal.
    """

    def __init__(self, instance: Instance, bounds: Bounds, track: Sequence[str]) -> None:
        self.requests = instance.requests
        self.n = len(self.requests)
        self.bounds = bounds
        self.track = tuple(track)
        self.caps = [dict(bounds.caps).get(name) for name in self.track]
        self.first_arrival = min(r.arrival_us for r in self.requests)
        equal_arrivals = all(r.arrival_us == self.first_arrival for r in self.requests)
        if "max_tbt" in self.track and not equal_arrivals:
            raise ValueError("max_tbt is an objective of labels only where all arrivals are equal")
        self.always_tight = equal_arrivals or all(g is None for g in bounds.gap)
        self.last_before = [None if r.progress is None or not r.progress.emitted else r.progress.last_token_us
                            for r in self.requests]
        self.needs_lag = ["max_tbt" in self.track or g is not None for g in bounds.gap]
        self.needs_first = bool(FIRST_TOKEN & set(self.track))
        self.needs_last = bool(LAST_TOKEN & set(self.track))
        self.nowhere = (NEVER,) * (self.n + 1)

    def initial(self) -> Tight | Loose:
        """Return the label of no batches."""
        if self.always_tight:
            lags = tuple(
                self.first_arrival - t if t is not None and needed else 0
                for t, needed in zip(self.last_before, self.needs_lag, strict=True)
            )
            return Tight(self.first_arrival, lags, (0,) * len(self.track))
        nothing = (self.nowhere,) * self.n
        at_zero = (0, *self.nowhere[1:])
        return Loose(at_zero, (self.first_arrival, *self.nowhere[1:]), nothing, nothing, nothing)

    def extend(self, label: Tight | Loose, batch: Batch, waiting: Sequence[int]) -> Tight | Loose | None:
        """Return the label after `batch`, None where a bound is broken.

        Parameters
        ----------
        label
            The label before it.
        batch
            The next batch.
        waiting
            Arrivals of the requests that have not started after it.
        """
        if isinstance(label, Tight):
            return self._extend_tight(label, batch)
        longer = self._extend_loose(label, batch)
        return None if longer is None else self._tightened(longer, batch, waiting)

    def _extend_tight(self, label: Tight, batch: Batch) -> Tight | None:
        end = max(label.end, batch.release) + batch.duration
        lags = [lag + end - label.end for lag in label.lags]
        amounts = list(label.amounts)
        for i, number, last in batch.emissions:
            request, bounds = self.requests[i], self.bounds
            gap = lags[i] if number > 1 else None
            lags[i] = 0
            if gap is not None and bounds.gap[i] is not None and gap > bounds.gap[i]:
                return None
            if number == 1 and bounds.first_by[i] is not None and end > bounds.first_by[i]:
                return None
            if last and bounds.last_by[i] is not None and end > bounds.last_by[i]:
                return None
            for j, name in enumerate(self.track):
                if name in FIRST_TOKEN and number == 1:
                    amounts[j] = grown(name, amounts[j], end - request.arrival_us, 1)
                elif name in LAST_TOKEN and last:
                    amounts[j] = grown(name, amounts[j], end - request.arrival_us, request.weight)
                elif name == "max_tbt" and gap is not None:
                    amounts[j] = max(amounts[j], gap)
                elif name == "makespan":
                    amounts[j] = end - self.first_arrival
        if any(cap is not None and a > cap for a, cap in zip(amounts, self.caps, strict=True)):
            return None
        for i, (_, _, g, _) in enumerate(batch.after):
            if g == 0 or not self.needs_lag[i]:  # nothing emitted, or finished: no gap runs
                lags[i] = 0
        return Tight(end, tuple(lags), tuple(amounts))

    def _extend_loose(self, label: Loose, batch: Batch) -> Loose | None:
        d = batch.duration
        new = tuple(max(e + d, s + batch.release + d) for e, s in zip(label.end, label.origin, strict=True))
        arcs = self._back_arcs(label, batch)
        if any(new[column] + weight > 0 for column, weight in arcs):
            return None  # a positive cycle

        def closed(row: Row) -> tuple[Row, float]:
            through = max((row[column] + weight for column, weight in arcs), default=NEVER)
            return tuple(max(x, through + y) for x, y in zip(row, new, strict=True)), through

        emitting = {e.request for e in batch.emissions}
        gone = {e.request for e in batch.emissions if e.last}
        follows = [i for i in emitting - gone if self.bounds.gap[i] is not None]

        def moved(row: Row, is_new: bool = False) -> Row:
            """Close the row and replace the columns of the emitting requests by the new node's."""
            values, through = closed(row)
            result = list(values)
            for i in emitting:
                result[i + 1] = NEVER
            for i in follows:
                result[i + 1] = 0 if is_new else through
            return tuple(result)

        end = moved(new, is_new=True)
        latest = tuple(
            (end if i in follows else self.nowhere) if i in emitting else moved(label.latest[i]) for i in range(self.n)
        )
        firsts = [moved(row) for row in label.firsts]
        lasts = [moved(row) for row in label.lasts]
        for i, number, last in batch.emissions:
            if number == 1 and self.needs_first:
                firsts[i] = end
            if last and self.needs_last:
                lasts[i] = end
        return Loose(moved(label.origin), end, latest, tuple(firsts), tuple(lasts))

    def _back_arcs(self, label: Loose, batch: Batch) -> list[tuple[int, int]]:
        """Return the arcs (target column, weight) from the new node: gaps and deadlines."""
        arcs = []
        for i, number, last in batch.emissions:
            gap = self.bounds.gap[i]
            if number > 1 and gap is not None:
                if self.last_before[i] is not None and label.latest[i][0] == NEVER:
                    arcs.append((0, -(self.last_before[i] + gap)))
                else:
                    arcs.append((i + 1, -gap))
            if number == 1 and self.bounds.first_by[i] is not None:
                arcs.append((0, -self.bounds.first_by[i]))
            if last and self.bounds.last_by[i] is not None:
                arcs.append((0, -self.bounds.last_by[i]))
        return arcs

    def _tightened(self, label: Loose, batch: Batch, waiting: Sequence[int]) -> Tight | Loose | None:
        """Return the label, as a tight one where Theorem 3 applies; None where a cap is broken."""
        amounts = self.amounts(label)
        if any(cap is not None and a > cap for a, cap in zip(amounts, self.caps, strict=True)):
            return None
        end = label.end[0]
        if any(arrival > end for arrival in waiting):
            return label
        lags = [0] * self.n
        for i, (_, _, g, _) in enumerate(batch.after):
            row = label.latest[i]
            if g == 0 or not self.needs_lag[i]:
                continue
            if row[0] != NEVER:
                lags[i] = int(label.end[i + 1])
                if lags[i] + row[0] != end:
                    return label
            elif self.last_before[i] is not None:
                lags[i] = int(end) - self.last_before[i]
        return Tight(int(end), tuple(lags), amounts)

    def amounts(self, label: Tight | Loose) -> tuple[int, ...]:
        """Return the amounts of the tracked objectives so far, in the least solution."""
        if isinstance(label, Tight):
            return label.amounts
        amounts = []
        for name in self.track:
            amount = int(label.end[0]) - self.first_arrival if name == "makespan" else 0
            for request, first, last in zip(self.requests, label.firsts, label.lasts, strict=True):
                row = first if name in FIRST_TOKEN else last
                if name != "makespan" and row[0] != NEVER:
                    amount = grown(name, amount, int(row[0]) - request.arrival_us, request.weight)
            amounts.append(amount)
        return tuple(amounts)
