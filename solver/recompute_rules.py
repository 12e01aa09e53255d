"""Recompute in the model: the rules of phases, presence and tokens."""

from __future__ import annotations

from ortools.sat.python import cp_model

from solver.constraints import Constraints
from solver.problem import Job
from solver.recomputing import RecomputeVariables
from solver.twins import order_twins


class RecomputeConstraints(Constraints):
    """The rules of a model that recomputes."""

    v: RecomputeVariables

    def add_progress(self) -> None:
        """Add phases, presence and tokens of every request, and Σ evict <= evictions."""
        for job in self.problem.jobs:
            for k in self.steps:
                self._phases(job, k)
                self._presence(job, k)
                self._tokens(job, k)
            self.model.add(sum(self.v.evict[job.index]) <= self.problem.evictions)
            if self.steps:
                self.model.add(self.v.finished[job.index][self.steps[-1]] == 1)

    def _phases(self, job: Job, k: int) -> None:
        """Add: done = done before + ended - evicted while done; chunks before it, decodes after, none where evicted."""
        v, model, i = self.v, self.model, job.index
        before, done, ended, evict = v.done_before(job, k), v.done[i][k], v.ended[i][k], v.evict[i][k]
        model.add(v.prefills[i][k] + before <= 1)
        model.add(v.prefills[i][k] + evict <= 1)
        model.add(v.decode[i][k] <= before)
        model.add(v.decode[i][k] + evict <= 1)
        model.add(ended <= v.prefills[i][k])
        model.add(done >= ended)
        model.add(done <= before + ended)
        model.add(done >= before - evict)
        model.add(done <= 1 - evict)

    def _presence(self, job: Job, k: int) -> None:
        """Add: present from the first chunk on, until an eviction, and again from the next chunk on."""
        v, model, i = self.v, self.model, job.index
        before, present, evict, prefills = v.present_before(job, k), v.present[i][k], v.evict[i][k], v.prefills[i][k]
        model.add(evict <= before - v.finished_before(job, k))
        model.add(evict <= v.used[k])
        model.add(present >= prefills)
        model.add(present >= before - evict)
        model.add(present <= before - evict + prefills)

    def _tokens(self, job: Job, k: int) -> None:
        """Add what is gained, dropped and emitted.

        gained = gained before + chunk + decode - dropped, where dropped = gained before in an eviction, else 0;
        emitted = emitted before + ended + decode. What is left of a prefill, prompt + emitted - computed tokens, is
        0 exactly in phase decode, where the last token is emitted but not computed: so left = prompt + emitted -
        computed - done, and 1 - done <= left <= most·(1 - done).
        """
        v, model, i, request = self.v, self.model, job.index, job.request
        most, before = v.problem.regained(job), v.gained_before(job, k)
        evict, dropped = v.evict[i][k], v.dropped[i][k]
        model.add(v.gained[i][k] == before + v.chunk(job, k) + v.decode[i][k] - dropped)
        model.add(dropped <= before)
        model.add(dropped <= most * evict)
        model.add(dropped >= before - most * (1 - evict))
        model.add(v.emitted[i][k] == v.emitted_before(job, k) + v.ended[i][k] + v.decode[i][k])
        left = request.prompt_tokens + v.emitted[i][k] - request.cached_tokens - v.gained[i][k] - v.done[i][k]
        model.add(left >= 1 - v.done[i][k])
        model.add(left <= most * (1 - v.done[i][k]))
        self._emissions(job, k)

    def _emissions(self, job: Job, k: int) -> None:
        """Add which tokens are the first, later ones, and the last."""
        v, model, i, request = self.v, self.model, job.index, job.request
        first = v.begun[i][k] - v.begun_before(job, k)
        model.add(first >= 0)
        model.add(v.later[i][k] == v.ended[i][k] + v.decode[i][k] - first)
        model.add(v.total_later[i][k] == (v.total_later[i][k - 1] if k else 0) + v.later[i][k])
        model.add(v.emitted[i][k] >= v.begun[i][k])
        model.add(v.emitted[i][k] <= request.output_tokens * v.begun[i][k])
        emitted = v.emitted[i][k] - request.emitted_before
        model.add(v.finished[i][k] >= v.finished_before(job, k))
        model.add(emitted >= request.outputs_left * v.finished[i][k])
        model.add(emitted <= request.outputs_left - 1 + v.finished[i][k])

    def add_chunk_shapes(self, job: Job) -> None:
        """Add: a chunk that does not end its prefill has an allowed size (none without chunking)."""
        engine, inner = self.engine, [0]
        if engine.enable_chunked_prefill:
            sizes = engine.chunk_sizes or range(1, engine.largest_chunk + 1)
            inner += [size for size in sizes if size <= engine.largest_chunk and size % engine.chunk_quantum == 0]
        if len(inner) > engine.largest_chunk:
            return
        allowed = cp_model.Domain.from_values(inner)
        for k in self.steps:
            row = self.model.add_linear_expression_in_domain(self.v.units[job.index][k], allowed)
            row.only_enforce_if(self.v.ended[job.index][k].negated())

    def add_dominance(self) -> None:
        """Add the order of twins, and that evictions come early."""
        order_twins(self.v)
        self.add_early_evictions()

    def add_early_evictions(self) -> None:
        """Add: whoever is evicted in k has worked in k - 1, or k is the first iteration.

        Proof: move an eviction to the iteration after the last one in which the request worked, or to the first one
        where it has not worked yet. It frees seat and tokens earlier, forces no decode, costs nothing, and changes
        nothing else.
        """
        v = self.v
        for job in self.problem.jobs:
            for k in self.steps[1:]:
                worked = v.prefills[job.index][k - 1] + v.decode[job.index][k - 1]
                self.model.add(v.evict[job.index][k] <= worked)
