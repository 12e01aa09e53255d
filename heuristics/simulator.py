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
from heuristics.recorder import Record, Run
from heuristics.registry import make_policy
from heuristics.state import RequestState
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
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(chosen, Policy):
        raise InputError.expected("a policy's name or a heuristics.policy.Policy", policy, "policy")
    return _Simulation(instance, chosen, step_by_step).run()


class _Simulation:
    """One run: passes, iterations and the clock."""

    def __init__(self, instance: Instance, policy: Policy, step_by_step: bool) -> None:
        self.instance = replace(instance, engine=policy.engine(instance.engine))
        self.instance_limits = instance.engine
        self.policy = policy
        self.name = policy.spec
        self.step_by_step = step_by_step
        self.engine = Engine(self.instance.engine, instance.cost)
        self.unfinished = len(instance.requests)
        self.records: list[Record] = []
        states = [RequestState(request, index) for index, request in enumerate(instance.requests)]
        self.arrivals = sorted(states, key=lambda r: (r.arrival_us, not r.resident, r.index), reverse=True)
        self.idle_passes = 0
        self.vain_evictions = 0

    def run(self) -> Run:
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
        return Run(self.instance, self.name, tuple(self.records))

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
        moved = engine.swapped(batch.evict), engine.swapped(batch.restore)
        engine.begin(batch.tokens, batch.evict, batch.restore)
        self.watch(batch)
        most = 1 if self.step_by_step else self.repeats(batch)
        finished = self.iterate(batch.tokens, batch.evict, batch.restore, moved)
        count = 1
        while count < most and not self.due(batch.until_us):
            finished = self.iterate(batch.tokens)
            count += 1
        self.policy.ran(batch, count, start, engine.now_us)
        for request in finished:
            engine.finish(request)
            self.unfinished -= 1
            self.policy.finished(request)

    def iterate(
        self, work: Work, evict: Sequence[RequestState] = (), restore: Sequence[RequestState] = (),
        moved: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> list[RequestState]:  # fmt: skip
        """Run one iteration and record it; return the requests that finished, still in their seats."""
        engine, start = self.engine, self.engine.now_us
        prefills = frozenset(r for r, _ in work if not r.decoding)
        duration = engine.cost.duration_us(engine.chunks(work), engine.contexts(work), *moved)
        emitted = engine.compute(work, duration)
        if emitted:
            self.vain_evictions = 0
        done = {r for r in emitted if not self.outputs_to_come(r)}
        finished = [r for r in engine.running if r in done] if done else []
        record = Record(start, duration, work, prefills, evict, restore, emitted, finished, engine.running,
                        engine.free_blocks)  # fmt: skip
        self.records.append(record)
        return finished

    def outputs_to_come(self, request: RequestState) -> int:
        """Return the output tokens that a request will still produce: what no online policy may see."""
        return self.instance.requests[request.index].output_tokens - request.emitted

    def repeats(self, batch: Batch) -> int:
        """Return how often a batch that has begun may run: up to the first that finishes, or ends its prefill.

        Fewer where the free KV blocks might not suffice; a request takes at most ``k * tokens / block_size + 1``.
        """
        most = batch.repeat
        if most == 1:
            return 1
        for request, tokens in batch.tokens:
            left = self.outputs_to_come(request) if request.decoding else request.remaining // tokens
            most = min(most, left)
        if self.instance.engine.num_kv_blocks is not None:
            spare = self.engine.free_blocks - len(batch.tokens)
            growth = sum(tokens for _, tokens in batch.tokens)
            most = min(most, spare * self.instance.engine.block_size // growth)
        return max(1, most)

    def due(self, until_us: int | None) -> bool:
        """Whether the policy has to be asked before the next iteration."""
        now = self.engine.now_us
        return (until_us is not None and until_us <= now) or bool(
            self.arrivals and self.arrivals[-1].arrival_us <= now
        )

    def watch(self, batch: Batch) -> None:
        """Stop a policy that evicts again and again while no request emits a token."""
        self.vain_evictions += len(batch.evict)
        most = VAIN_EVICTIONS * (1 + self.unfinished)
        if self.vain_evictions > most:
            problem = f"{self.vain_evictions} evictions without an emitted token; the last one evicted "
            raise self.error("livelock", problem + ", ".join(r.id for r in batch.evict), self.vain_evictions, most)
