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

from dataclasses import replace

from heuristics.enforcement import enforce
from heuristics.engine import Engine
from heuristics.policy import Batch, Oracle, Policy, PolicyError, Setup
from heuristics.recorder import Log, Run
from heuristics.registry import make_policy
from heuristics.state import RequestState
from heuristics.stretch import Stretch, durations_until, durations_us
from heuristics.summary import Summary, Tally
from instances.errors import InputError
from instances.instance import Instance

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
                enforce(self.engine, batch, self.name)
                self.execute(batch)
            else:
                self.idle(batch)

    def error(self, rule: str, problem: str, value: int | None = None, limit: int | None = None) -> PolicyError:
        return PolicyError(self.name, self.engine.iteration, rule, problem, None, value, limit)

    def take_arrivals(self) -> None:
        """Let in whoever has arrived by now."""
        while self.arrivals and self.arrivals[-1].arrival_us <= self.engine.now_us:
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

    def execute(self, batch: Batch) -> None:
        """Run a batch once, or as often in a row as it promises to stay the same."""
        engine, start = self.engine, self.engine.now_us
        self.idle_passes = 0
        moved_out, moved_in = engine.swapped(batch.evict), engine.swapped(batch.restore)
        engine.begin(batch.tokens, batch.evict, batch.restore)
        self.watch(batch)
        chunks, contexts = engine.chunks(batch.tokens), engine.contexts(batch.tokens)
        most = 1 if self.step_by_step else self.repeats(batch)
        if moved_out or moved_in:
            first = engine.cost.duration_us(chunks, contexts, moved_out, moved_in)
        else:
            first = durations_us(engine.cost, chunks, contexts, 0, 1)[0]
        durations = durations_until(engine.cost, chunks, contexts, first, most, self.span(batch.until_us))
        prefills = frozenset(r for r, _ in batch.tokens if not r.decoding) if chunks else frozenset()
        emitted = engine.compute(batch.tokens, durations)
        if emitted:
            self.vain_evictions = 0
        outputs = self.outputs
        done = {r for r in emitted if r.emitted >= outputs[r.index]}
        finished = [r for r in engine.running if r in done] if done else []
        stretch = Stretch(start, durations, batch.tokens, prefills, chunks, contexts, batch.evict, batch.restore,
                          moved_out)  # fmt: skip
        self.recorder.add(stretch, engine, emitted, finished)
        self.policy.ran(batch, len(durations), start, engine.now_us)
        for request in finished:
            engine.finish(request)
            self.unfinished -= 1
            self.policy.finished(request)

    def repeats(self, batch: Batch) -> int:
        """Return how often a batch that has begun may run: up to the first that finishes, or ends its prefill.

        Fewer where the free KV blocks might not suffice; a request takes at most ``k * tokens / block_size + 1``.
        """
        most = batch.repeat
        if most == 1:
            return 1
        outputs = self.outputs
        for request, tokens in batch.tokens:
            left = outputs[request.index] - request.emitted if request.decoding else request.remaining // tokens
            most = left if left < most else most
        if self.instance.engine.num_kv_blocks is not None:
            spare = self.engine.free_blocks - len(batch.tokens)
            growth = sum(tokens for _, tokens in batch.tokens)
            most = min(most, spare * self.instance.engine.block_size // growth)
        return max(1, most)

    def span(self, until_us: int | None) -> int | None:
        """Return the time until the policy has to be asked again at the latest, None for any."""
        awaited = [] if until_us is None else [until_us]
        awaited += [self.arrivals[-1].arrival_us] if self.arrivals else []
        return min(awaited) - self.engine.now_us if awaited else None

    def watch(self, batch: Batch) -> None:
        """Stop a policy that evicts again and again while no request emits a token."""
        self.vain_evictions += len(batch.evict)
        most = VAIN_EVICTIONS * (1 + self.unfinished)
        if self.vain_evictions > most:
            problem = f"{self.vain_evictions} evictions without an emitted token; the last one evicted "
            raise self.error("livelock", problem + ", ".join(r.id for r in batch.evict), self.vain_evictions, most)
