"""The simulator: runs a policy on an instance, owns the clock and enforces every limit.

Example
-------
>>> from instances.generate import random_instance
>>> from instances.check import violations
>>> instance = random_instance(3)
>>> run = simulate(instance, "greedy-chunked")
>>> violations(instance, run.schedule)
[]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heuristics.enforcement import enforce
from heuristics.engine import Engine, Work
from heuristics.policy import Batch, Oracle, Policy, PolicyError, Setup
from heuristics.recorder import Log, Run
from heuristics.registry import make_policy
from heuristics.state import RequestState
from heuristics.stretch import Durations, Stretch
from heuristics.summary import Summary, Tally
from instances.errors import InputError
from instances.instance import Instance

LONGEST_STRETCH = 1_024
"""Iterations that are advanced in one step at most: what is kept of a stretch, one duration each, is bounded."""
MAX_IDLE_PASSES = 1_000
"""Passes in a row that may schedule nothing between two events."""
VAIN_EVICTIONS = 20
"""Evictions per unfinished request, in a row without an emitted token, that are taken for a livelock."""


def simulate(instance: Instance, policy: str | Policy, *, step_by_step: bool = False) -> Run:
    """Run a policy on an instance.

    Parameters
    ----------
    instance
        The problem.
    policy
        A name with knobs, like ``greedy-chunked:chunk=64,order=srpt``, or an object with the hooks of
        `heuristics.policy.Policy`.
    step_by_step
        Ask the policy before every iteration, whatever its batches promise (`Batch.repeat`). The schedule is the
        same; for tests.

    Returns
    -------
    Run
        With the schedule, which the checker accepts for `Run.instance`, and the decisions. That instance is the one
        given, except for a policy that models an engine which does what the instance forbids (`Policy.engine`).

    Raises
    ------
    InputError
        For an unknown policy or knob.
    PolicyError
        For an impossible batch (naming iteration, rule, request, value and limit), for nothing scheduled while
        nothing is awaited, and for evictions that lead nowhere.
    """
    log = Log()
    simulation = _Simulation(instance, _chosen(policy), log, step_by_step)
    simulation.run()
    return Run(simulation.instance, simulation.name, tuple(log.records))


def summarise(instance: Instance, policy: str | Policy) -> Summary:
    """Run a policy on an instance like `simulate`, and keep its metrics only.

    Memory does not grow with the number of iterations. Parameters and errors as in `simulate`.

    Returns
    -------
    Summary
        With the very metrics of the schedule.
    """
    tally = Tally(instance)
    simulation = _Simulation(instance, _chosen(policy), tally, step_by_step=False)
    simulation.run()
    return Summary(simulation.instance, simulation.name, tally)


def _chosen(policy: str | Policy) -> Policy:
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(chosen, Policy):
        raise InputError.expected("a policy's name or a heuristics.policy.Policy", policy, "policy")
    return chosen


class _Simulation:
    """One run: passes, iterations and the clock."""

    def __init__(self, instance: Instance, policy: Policy, recorder: Log | Tally, step_by_step: bool) -> None:
        self.instance = replace(instance, engine=policy.engine(instance.engine))
        self.instance_limits = instance.engine
        self.policy = policy
        self.name = policy.spec
        self.step_by_step = step_by_step
        self.engine = Engine(self.instance.engine, instance.cost)
        self.outputs = [r.output_tokens for r in instance.requests]  # what no online policy may see
        self.unfinished = len(instance.requests)
        self.recorder = recorder
        self.durations = Durations(instance.cost)
        states = [RequestState(request, index) for index, request in enumerate(instance.requests)]
        self.arrivals = sorted(states, key=lambda r: (r.arrival_us, not r.resident, r.index), reverse=True)
        self.idle_passes = 0
        self.vain_evictions = 0

    def run(self) -> None:
        oracle = None
        if self.policy.clairvoyant:
            oracle = Oracle(self.instance.requests, knows_future=self.policy.knows_future)
        self.policy.start(Setup(self.instance.engine, self.instance_limits, self.instance.cost, oracle))
        while self.unfinished:
            self.take_arrivals()
            if self.engine.is_empty:
                self.engine.wait_until(self.arrivals[-1].arrival_us)
                continue
            batch = self.policy.schedule(self.engine)
            if not isinstance(batch, Batch):
                raise self.error("non-empty", f"schedule returned {batch!r}, a Batch is expected")
            if batch.tokens:
                self.execute(batch, enforce(self.engine, batch, self.name))
            else:
                self.idle(batch)

    def error(self, rule: str, problem: str, value: int | None = None, limit: int | None = None) -> PolicyError:
        return PolicyError(self.name, self.engine.iteration, rule, problem, None, value, limit)

    def take_arrivals(self) -> None:
        """Let in whoever has arrived by now."""
        now = self.engine.now_us
        while self.arrivals and self.arrivals[-1].arrival_us <= now:
            request = self.arrivals.pop()
            self.engine.arrive(request)
            self.policy.arrived(request)
            self.idle_passes = 0

    def idle(self, batch: Batch) -> None:
        """Let time pass until the next arrival, or until the policy wants to be asked again."""
        if batch.evict or batch.restore:
            raise self.error("non-empty", "an iteration that evicts or restores processes no token", 0, 1)
        self.idle_passes += 1
        awaited = [] if batch.until_us is None else [batch.until_us]
        awaited += [self.arrivals[-1].arrival_us] if self.arrivals else []
        if not awaited or self.idle_passes > MAX_IDLE_PASSES:
            why = f"for the {self.idle_passes}th time in a row" if awaited else "and nothing is awaited"
            waiting, running = len(self.engine.waiting), len(self.engine.running)
            problem = f"schedules nothing {why}; {waiting} requests wait, {running} are resident"
            raise self.error("idle", problem, self.idle_passes, MAX_IDLE_PASSES if awaited else 0)
        self.engine.wait_until(min(awaited))

    def execute(self, batch: Batch, decodes: Sequence[RequestState]) -> None:
        """Run a batch once, or as often in a row as it promises to stay the same."""
        engine, start, tokens = self.engine, self.engine.now_us, batch.tokens
        self.idle_passes = 0
        prefills = [(r, n) for r, n in tokens if not r._decoding] if len(decodes) < len(tokens) else []
        moved_out, moved_in = engine.swapped(batch.evict), engine.swapped(batch.restore)
        engine.begin(prefills, batch.evict, batch.restore)
        if batch.evict:
            self.watch(batch)
        outputs = self.outputs
        left = [outputs[r.index] - r._emitted for r in decodes]
        most = 1 if self.step_by_step or batch.repeat == 1 else self.repeats(batch, left, prefills)
        durations = self.durations.of(decodes, prefills, moved_out, moved_in, most, self.span(batch.until_us))
        since = [r._last_token_us for r in decodes]
        ends = [(r, r._last_token_us) for r, _ in prefills]
        ended = engine.compute(decodes, prefills, durations)
        if decodes or ended:
            self.vain_evictions = 0
        ended_since = [before for r, before in ends if r._decoding] if ended else []
        stretch = Stretch(start, durations, tokens, decodes, prefills, since, ended, ended_since, batch.evict,
                          batch.restore, moved_out)  # fmt: skip
        finished = self.finished(stretch, left)
        self.recorder.add(stretch, engine, finished)
        self.policy.ran(batch, len(durations), start, engine.now_us)
        for request in finished:
            engine.finish(request)
            self.unfinished -= 1
            self.policy.finished(request)

    def finished(self, stretch: Stretch, left: Sequence[int]) -> list[RequestState]:
        """Return who has emitted its last token with a stretch, in running order; `left` was to come per decode."""
        count = len(stretch.durations_us)
        done: set[RequestState] = set()
        if count in left:
            done = {r for r, outputs in zip(stretch.decodes, left, strict=True) if outputs == count}
        done |= {r for r in stretch.ended if r._emitted >= self.outputs[r.index]}
        return [r for r in self.engine.running if r in done] if done else []

    def repeats(self, batch: Batch, left: Sequence[int], prefills: Work) -> int:
        """Return how often a batch that has begun may run: up to the first that finishes, or ends its prefill.

        Fewer where the free KV blocks might not suffice; a request takes at most ``k * tokens / block_size + 1``.
        """
        most = min(left, default=batch.repeat)
        for request, tokens in prefills:
            most = min(most, request.remaining // tokens)
        limits = self.instance.engine
        if limits.num_kv_blocks is not None:
            growth = len(left) + sum([tokens for _, tokens in prefills])
            most = min(most, (self.engine.free_blocks - len(batch.tokens)) * limits.block_size // growth)
        return max(1, min(most, batch.repeat, LONGEST_STRETCH))

    def span(self, until_us: int | None) -> int | None:
        """Return the time until the policy has to be asked again at the latest, None for any."""
        awaited = self.arrivals[-1].arrival_us if self.arrivals else until_us
        if awaited is None:
            return None
        return (awaited if until_us is None else min(awaited, until_us)) - self.engine.now_us

    def watch(self, batch: Batch) -> None:
        """Stop a policy that evicts again and again while no request emits a token."""
        self.vain_evictions += len(batch.evict)
        most = VAIN_EVICTIONS * (1 + self.unfinished)
        if self.vain_evictions > most:
            problem = f"{self.vain_evictions} evictions without an emitted token; the last one evicted "
            raise self.error("livelock", problem + ", ".join(r.id for r in batch.evict), self.vain_evictions, most)
