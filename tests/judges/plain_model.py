"""The plain CP-SAT model: model.md written down rule by rule, with no cuts, no dominance, no symmetry and no hints.

Per request and iteration an integer chunk, a decode boolean and a "prefill done" boolean (monotone where nothing is
evicted); ends of iterations as running sums; arrivals, first and last tokens linked by enforced equalities. It is a
judge of the solver on tiny instances and the baseline of the benchmarks. Times are in µs, from the earliest arrival.

Enough iterations: each processes a chunk or a decode, so there are never more than chunks and decodes. A request has
at most ceil(left / quantum) chunks in its prefill and one decode per further token; each eviction with recompute adds
at most a prefill of prompt + output - 1 tokens, while swap adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortools.sat.python import cp_model

from instances.instance import Instance
from tests.judges.plain_cost import PlainCost
from tests.judges.plain_limits import PlainLimits
from tests.judges.plain_metrics import PlainMetrics

Literal = cp_model.IntVar


def plain_optimum(
    instance: Instance,
    objective: str,
    limits: Mapping[str, int] | None = None,
    *,
    no_pause: bool = False,
    max_preemptions: int = 1,
    iterations: int | None = None,
    time_limit: float = 60.0,
    workers: int = 1,
) -> tuple[str, int | None, int | None]:
    """Return (status, amount, bound) of one objective.

    Parameters
    ----------
    instance
        The instance.
    objective
        Name of an objective of model.md §6; amounts are those of `tests.judges.exhaustive`.
    limits
        Largest amounts allowed.
    no_pause, max_preemptions
        As for the solver.
    iterations
        Number of iterations modelled; by default as many as always suffice.
    time_limit, workers
        Of CP-SAT, in seconds and threads.

    Returns
    -------
    tuple
        Status word of model.md §6 (UNKNOWN where neither schedule nor proof was found), best amount and proved bound.
    """
    plain = PlainModel(instance, no_pause, max_preemptions, iterations)
    metrics = PlainMetrics(plain)
    for name, limit in (limits or {}).items():
        plain.model.add(metrics.amount(name) <= limit)
    amount = metrics.amount(objective)
    plain.model.minimize(amount)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = workers
    status = solver.solve(plain.model)
    word = solver.status_name(status)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return word, round(solver.objective_value), round(solver.best_objective_bound)
    return word, None, None


def enough_iterations(instance: Instance, max_preemptions: int) -> int:
    """Return a number of iterations that no schedule exceeds (see above)."""
    total = 0
    for r in instance.requests:
        total += -(-r.prefill_left // instance.engine.chunk_quantum) + r.decodes_left
        if instance.engine.preemption == "recompute":
            total += max_preemptions * (r.prompt_tokens + r.output_tokens - 1)
    return total


class PlainModel:
    """Variables and rules; lists are indexed [request][iteration], and [request][-1] is the state at time 0.

    Attributes
    ----------
    start, end
        Of each iteration, in µs from the earliest arrival.
    chunk, prefills, decode
        Tokens prefilled, whether any, and whether it decodes.
    done
        Whether the prefill is complete at the end of the iteration.
    computed, emitted
        Tokens computed (those of a prefix hit included) and emitted at its end.
    emits
        Whether it emits a token at its end.
    held
        Whether it is resident after the compute (finishing requests included).
    stays, finished
        Whether it is resident when the iteration is over, and whether it has emitted everything by then.
    evict, restore, away
        Evicted or restored at its start, and swapped out at its end.
    used, any_prefill
        Whether the iteration processes anything, and any chunk.
    """

    def __init__(
        self, instance: Instance, no_pause: bool = False, max_preemptions: int = 1, iterations: int | None = None
    ) -> None:
        self.instance = instance
        self.requests = instance.requests
        self.engine = instance.engine
        self.mode = instance.engine.preemption
        self.max_preemptions = max_preemptions if self.mode != "none" else 0
        self.count = enough_iterations(instance, max_preemptions) if iterations is None else iterations
        self.steps = range(self.count)
        self.origin = min(r.arrival_us for r in instance.requests)
        self.model = cp_model.CpModel()
        self._variables()
        self._progress()
        PlainLimits(self, no_pause=no_pause)
        self._times()

    def flag(self, name: str) -> Literal:
        """Return a new boolean."""
        return self.model.new_bool_var(name)

    def _variables(self) -> None:
        model, steps = self.model, self.steps
        names = ("prefills", "decode", "done", "emits", "held", "evict", "restore", "away", "finished", "stays")
        for name in names:
            setattr(self, name, [[self.flag(f"{name}_{i}_{k}") for k in steps] for i in range(len(self.requests))])
        self.used = [self.flag(f"used_{k}") for k in steps]
        self.any_prefill = [self.flag(f"any_prefill_{k}") for k in steps]
        self.chunk, self.computed, self.emitted = [], [], []
        for i, r in enumerate(self.requests):
            most = r.prompt_tokens + r.output_tokens - 1
            chunk = min(most, self.engine.max_num_batched_tokens)
            self.chunk.append([model.new_int_var(0, chunk, f"chunk_{i}_{k}") for k in steps])
            self.computed.append([model.new_int_var(0, most, f"computed_{i}_{k}") for k in steps])
            self.emitted.append([model.new_int_var(0, r.output_tokens, f"emitted_{i}_{k}") for k in steps])
            # the state at time 0 stands last, where k - 1 finds it for k = 0
            before = r.emitted_before
            for row, value in (
                (self.done, int(before > 0)), (self.away, 0), (self.finished, 0),
                (self.stays, int(r.progress is not None)), (self.computed, r.computed_before), (self.emitted, before),
            ):  # fmt: skip
                row[i].append(value)

    def _progress(self) -> None:
        """Phases, chunks, decodes, evictions and emissions of every request (model.md §3)."""
        for i, r in enumerate(self.requests):
            for k in self.steps:
                self._presence(i, k)
                self._tokens(i, k)
            self.model.add(sum(self.evict[i]) <= self.max_preemptions)
            self.model.add(self.emitted[i][self.count - 1] == r.output_tokens)

    def _presence(self, i: int, k: int) -> None:
        """Who works, leaves, comes back and is resident."""
        model, prefills, decode = self.model, self.prefills[i][k], self.decode[i][k]
        evict, restore, held = self.evict[i][k], self.restore[i][k], self.held[i][k]
        was_resident, was_away, was_done = self.stays[i][k - 1], self.away[i][k - 1], self.done[i][k - 1]
        model.add(prefills + decode + evict <= 1)
        model.add(prefills + was_done <= 1)
        model.add(decode <= was_done)
        model.add(decode + self.finished[i][k - 1] <= 1)
        model.add(prefills + decode <= 1 - was_away + restore)
        model.add(evict <= was_resident)
        model.add(restore <= was_away)
        model.add(self.away[i][k] == was_away - restore + (evict if self.mode == "swap" else 0))
        # resident: those at the start, minus evicted, plus restored, plus those that start or start again
        model.add(held >= was_resident - evict)
        model.add(held >= restore)
        model.add(held >= prefills)
        model.add(held <= was_resident - evict + restore + prefills)
        model.add(self.stays[i][k] == held - self.finished[i][k] + self.finished[i][k - 1])

    def _tokens(self, i: int, k: int) -> None:
        """What is computed and emitted."""
        model, r, evict = self.model, self.requests[i], self.evict[i][k]
        chunk, prefills, decode = self.chunk[i][k], self.prefills[i][k], self.decode[i][k]
        computed, before = self.computed[i][k], self.computed[i][k - 1]
        emitted, emits, finished = self.emitted[i][k], self.emits[i][k], self.finished[i][k]
        ends = self.flag(f"ends_{i}_{k}")
        model.add(chunk >= prefills)
        model.add(chunk <= self.engine.max_num_batched_tokens * prefills)
        drops = self.mode == "recompute"  # an eviction drops all tokens; a prefix hit counts again
        target = r.prompt_tokens + (self.emitted[i][k - 1] if drops else 0)
        model.add(ends <= prefills)
        model.add(computed == target).only_enforce_if(ends)
        model.add(computed < target).only_enforce_if([prefills, ends.negated()])
        grows = model.add(computed == before + chunk + decode)
        lasts = model.add(self.done[i][k] == self.done[i][k - 1] + ends)
        if drops:
            grows.only_enforce_if(evict.negated())
            lasts.only_enforce_if(evict.negated())
            model.add(computed == r.cached_tokens).only_enforce_if(evict)
            model.add(self.done[i][k] == 0).only_enforce_if(evict)
        model.add(emits == ends + decode)
        model.add(emitted == self.emitted[i][k - 1] + emits)
        model.add(emitted == r.output_tokens).only_enforce_if(finished)
        model.add(emitted < r.output_tokens).only_enforce_if(finished.negated())
        self._chunk_shape(chunk, prefills, ends, f"{i}_{k}")

    def _chunk_shape(self, chunk: Literal, prefills: Literal, ends: Literal, name: str) -> None:
        e, going_on = self.engine, [prefills, ends.negated()]
        if e.max_chunk_tokens is not None:
            self.model.add(chunk <= e.max_chunk_tokens)
        if e.chunk_sizes is not None:
            self.model.add(chunk <= max(e.chunk_sizes))
            allowed = cp_model.Domain.from_values(list(e.chunk_sizes))
            self.model.add_linear_expression_in_domain(chunk, allowed).only_enforce_if(going_on)
        if not e.enable_chunked_prefill:
            self.model.add(ends == prefills)
        if e.chunk_quantum > 1:
            quanta = self.model.new_int_var(0, e.max_num_batched_tokens // e.chunk_quantum, f"quanta_{name}")
            self.model.add(chunk == e.chunk_quantum * quanta).only_enforce_if(going_on)

    def _times(self) -> None:
        """Starts and ends: an iteration starts after the one before and after the arrivals of those it works on."""
        cost = PlainCost(self)
        longest = max(r.arrival_us for r in self.requests) - self.origin + cost.longest * self.count
        self.horizon = longest
        self.start = [self.model.new_int_var(0, longest, f"start_{k}") for k in self.steps]
        self.end = [self.model.new_int_var(0, longest, f"end_{k}") for k in self.steps]
        for k in self.steps:
            self.model.add(self.end[k] == self.start[k] + cost.durations[k])
            if k:
                self.model.add(self.start[k] >= self.end[k - 1])
            for i, r in enumerate(self.requests):
                for works in (self.prefills[i][k], self.decode[i][k]):
                    self.model.add(self.start[k] >= r.arrival_us - self.origin).only_enforce_if(works)
