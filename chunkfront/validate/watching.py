"""Watching a scheduler at work: every decision, every empty batch, every write into what it may only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from chunkfront.validate.finding import ERROR, WARNING, Finding
from chunkfront.validate.watchdog import watchdog
from heuristics.plan import Plan
from heuristics.policy import Batch, EngineState, Policy, RequestState, Setup
from instances.engine import EngineLimits

OF_STATE = ("now_us", "iteration", "free_blocks", "limits", "running", "waiting")
_of_state = attrgetter(*OF_STATE)
_of_request = attrgetter(*RequestState.__slots__)
PASS_LIMIT_S = 20.0
"""A pass that takes longer is taken for one that never ends."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One batch that was not empty, as it was decided: when, and what; ids, and times in µs."""

    iteration: int
    now_us: int
    tokens: dict[str, int]
    evict: frozenset[str]
    restore: frozenset[str]

    def __str__(self) -> str:
        work = " ".join(f"{name}+{tokens}" for name, tokens in self.tokens.items())
        moves = [f"evict {name}" for name in sorted(self.evict)] + [f"restore {name}" for name in sorted(self.restore)]
        return f"[{', '.join([work, *moves])}] at {self.now_us / 1000:g} ms"


class Watched(Policy):
    """A policy that does what another one does, and takes notes.

    Parameters
    ----------
    policy
        The one that decides.
    instance
        Name of the instance, for the notes.
    """

    def __init__(self, policy: Policy, instance: str = "") -> None:
        self.policy = policy
        self.instance = instance
        self.clairvoyant = policy.clairvoyant
        self.knows_future = policy.knows_future
        self.decisions: list[Decision] = []
        self.findings: list[Finding] = []
        self.ends: dict[str, int] = {}
        self.iteration: int | None = None
        self.unserved: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """The watched policy as the command line says it."""
        return self.policy.spec

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine that the policy runs on."""
        return self.policy.engine(limits)

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        with watchdog(PASS_LIMIT_S):
            self.policy.start(setup)

    def arrived(self, request: RequestState) -> None:
        """Pass on."""
        self.policy.arrived(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Pass on."""
        self.policy.ran(batch, iterations, start_us, end_us)

    def finished(self, request: RequestState) -> None:
        """Pass on; note after how many decisions a request has ended."""
        self.ends[request.id] = len(self.decisions)
        self.policy.finished(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return what the policy decides, after a note of it."""
        self.iteration = state.iteration
        known = (*state.running, *state.waiting)
        self.unserved = tuple(r.id for r in known)
        before = _snapshot(state, known)
        with watchdog(PASS_LIMIT_S):
            batch = self.policy.schedule(state)
        self._note_writing(state, before, _snapshot(state, known))
        if isinstance(batch, Batch):
            self._note_decision(state, batch)
        return batch

    def _note_decision(self, state: EngineState, batch: Batch) -> None:
        try:
            tokens = {r.id: n for r, n in batch.tokens}
            evict, restore = frozenset(r.id for r in batch.evict), frozenset(r.id for r in batch.restore)
        except (AttributeError, TypeError, ValueError):  # not what a batch holds: the simulator says so
            return
        if tokens:
            self.decisions.append(Decision(state.iteration, state.now_us, tokens, evict, restore))
        elif not evict and not restore:
            self._note_idling(state)

    def _note_idling(self, state: EngineState) -> None:
        plan = Plan(state)
        for request in (*state.running, *state.waiting):
            tokens = plan.tokens_for(request)
            if tokens and plan.fits(request, tokens):
                message = (f"iteration {state.iteration}: an empty batch at {state.now_us / 1000:g} ms, though "
                           f"{request.id!r} could get {tokens} tokens")  # fmt: skip
                self.findings.append(Finding(
                    "empty-batch", message, WARNING, self.instance, state.iteration, request.id, 0, tokens,
                ))  # fmt: skip
                return

    def _note_writing(self, state: EngineState, before: Snapshot, after: Snapshot) -> None:
        if before == after:
            return
        for subject, names, old, new in zip(before.subjects, before.names, before.values, after.values, strict=True):
            for name, was, became in zip(names, old, new, strict=True):
                if was != became:
                    key = f"{subject}.{name.lstrip('_')}"
                    message = f"iteration {state.iteration}: schedule changes {key} from {was} to {became}"
                    who = subject if subject in self.unserved else None
                    self.findings.append(Finding("state-written", message, ERROR, self.instance, state.iteration, who))
                    return


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a policy may read and not write, at one moment: per subject, names and values."""

    subjects: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Any, ...], ...]


def _snapshot(state: EngineState, known: Sequence[RequestState]) -> Snapshot:
    return Snapshot(
        ("state", *(r.id for r in known)),
        (OF_STATE, *[RequestState.__slots__] * len(known)),
        (_of_state(state), *map(_of_request, known)),
    )
