"""A decision log against an instance: the schedule that it tells of, and everything in it that cannot be.

The phases of the requests, and times that the log leaves out, follow from the instance: an iteration starts when the
one before has ended and all that it works on has arrived, and lasts as long as the cost model says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from instances.check import Violation, violations
from instances.decision_log import Decision, DecisionLog
from instances.errors import in_file, inside
from instances.instance import Instance
from instances.replay import Replayer, Status, Step
from instances.request import Phase
from instances.schedule import Iteration, Schedule
from instances.units import MAX_TIME_US, as_int


@dataclass(frozen=True)
class CheckedLog:
    """What a log comes to.

    Parameters
    ----------
    schedule
        Its iterations, with the times that it tells or that follow.
    violations
        Every broken rule, and every belief of the scheduler that is wrong (rules ``log-...``); messages begin with
        the line.
    modelled_us
        Per iteration, its duration by the cost model.
    computed_ends
        How many iterations have their end from the cost model.
    """

    schedule: Schedule
    violations: tuple[Violation, ...]
    modelled_us: tuple[int, ...]
    computed_ends: int


def check_log(instance: Instance, log: DecisionLog, *, measured: bool = False, no_pause: bool = False) -> CheckedLog:
    """Return the schedule of a log and what is wrong with it.

    Parameters
    ----------
    instance, log
        The problem, and the decisions.
    measured
        The log's times are measured on a machine: they count as they are and need not fit the cost model, and an end
        that it leaves out is cut at the next start. Otherwise ends that the log tells have to fit too.
    no_pause
        Demand too that every resident whose prefill is complete decodes in every iteration.

    Raises
    ------
    InputError
        Where times grow beyond all bounds.
    """
    with in_file(log.file):
        follower = _Follower(instance, log.decisions, measured)
        found = follower.follow()
    schedule = Schedule(instance.name, f"log {log.file}", tuple(found))
    broken = [v for v in violations(instance, schedule, no_pause=no_pause) if not (measured and v.rule == "duration")]
    broken += follower.wrong
    lines = {index: decision.line for index, decision in enumerate(log.decisions)}
    last = len(lines)
    broken.sort(key=lambda v: last if v.iteration is None else v.iteration)
    told = (v if v.iteration is None else replace(v, message=f"line {lines[v.iteration]}: {v.message}") for v in broken)
    return CheckedLog(schedule, tuple(told), tuple(follower.modelled_us), follower.computed_ends)


class _Follower:
    """Replays a log decision by decision."""

    def __init__(self, instance: Instance, decisions: Sequence[Decision], measured: bool) -> None:
        self.instance = instance
        self.decisions = decisions
        self.measured = measured
        self.engine = Replayer(instance)
        self.arrivals = {r.id: r.arrival_us for r in instance.requests}
        self.swaps = instance.engine.preemption == "swap"
        self.wrong: list[Violation] = []
        self.modelled_us: list[int] = []
        self.computed_ends = 0

    def follow(self) -> list[Iteration]:
        """Return the iterations of the log, in its order."""
        found: list[Iteration] = []
        now = 0
        for index, decision in enumerate(self.decisions):
            with inside(f"line {decision.line}"):
                start = self._start(decision, now)
                work = self._work(decision, start)
                step = self.engine.run(index, work)
                self.modelled_us.append(self._modelled(step))
                duration = as_int(self._duration(index, start), "duration", maximum=MAX_TIME_US)
                now = start + duration
                found.append(replace(work, duration_us=duration))
                self.wrong += _beliefs(self.instance, decision, step, [*self.engine.resident, *step.finished])
        return found

    def _start(self, decision: Decision, now: int) -> int:
        if decision.start_us is not None:
            return decision.start_us
        return max([now, *(self.arrivals.get(name, 0) for name in decision.scheduled)])

    def _work(self, decision: Decision, start: int) -> Iteration:
        """Return the iteration; what the log calls scheduled is prefill or decode by the phase of the request."""
        restored = list(decision.restored)
        prefill: dict[str, int] = {}
        decode: list[str] = []
        for name, tokens in decision.scheduled.items():
            view = self.engine.views.get(name)
            if view is not None and view.status is Status.SWAPPED and name not in restored:
                restored.append(name)  # it works, so it is back
            dropped = name in decision.preempted and not self.swaps
            if view is not None and view.phase is Phase.DECODE and tokens == 1 and not dropped:
                decode.append(name)
            else:
                prefill[name] = tokens
        return Iteration(start, 0, prefill, tuple(decode), tuple(decision.preempted), tuple(restored))

    def _modelled(self, step: Step) -> int:
        moved = (list(step.moved_out.values()), list(step.moved_in.values())) if self.swaps else ((), ())
        return self.instance.cost.duration_us(list(step.chunks.values()), list(step.contexts.values()), *moved)

    def _duration(self, index: int, start: int) -> int:
        decision = self.decisions[index]
        if decision.end_us is not None:
            return decision.end_us - start
        self.computed_ends += 1
        duration = self.modelled_us[-1]
        following = self.decisions[index + 1].start_us if index + 1 < len(self.decisions) else None
        if self.measured and following is not None and following >= start:
            return min(duration, following - start)
        return duration


def _beliefs(instance: Instance, decision: Decision, step: Step, running: Sequence[str]) -> Iterator[Violation]:
    """Yield what the scheduler believed after an iteration and what is not so."""
    for rule, said, is_so in (
        ("log-emitted", decision.emitted, step.emitted),
        ("log-finished", decision.finished, step.finished),
        ("log-running", decision.running, running),
    ):
        if said is None:
            continue
        for name in [name for name in said if name not in is_so] + [name for name in is_so if name not in said]:
            claim, fact = ("names", "is not") if name in said else ("does not name", "is")
            key = rule.removeprefix("log-")
            yield Violation(rule, step.index, name, f"{key} {claim} {name!r}, which {fact} {key} by the instance")
    pool = instance.engine.num_kv_blocks
    if decision.free_blocks_after is not None and pool is not None and decision.free_blocks_after != pool - step.blocks:
        message = f"free_blocks_after is {decision.free_blocks_after}, by the instance {pool - step.blocks} are free"
        yield Violation("log-free-blocks", step.index, None, message, decision.free_blocks_after, pool - step.blocks)
