"""Combinatorial lower bounds, without CP-SAT.

Every request is a chain in the precedence graph: its chunks (as few as the largest chunk allows), then its decodes.
The longest path to a node says how many iterations must run before it, and so when it ends at the earliest. The
machine adds the work of all: no iteration handles more than K tokens, and each costs at least its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import heappop, heappush

import networkx as nx

from instances.cost_model import Piece
from solver.problem import Job, Problem

Node = tuple[int, str, int]
"""(job, "chunk" or "decode", number from 1); the source is (-1, "start", 0)."""
SOURCE: Node = (-1, "start", 0)


def precedence_graph(problem: Problem) -> nx.DiGraph:
    """Return the precedence graph: an arc ``u -> v`` of weight 1 means that v runs at least one iteration later."""
    graph = nx.DiGraph()
    graph.add_node(SOURCE)
    for job in problem.jobs:
        chain: list[Node] = [(job.index, "chunk", n + 1) for n in range(problem.fewest_chunks(job))]
        chain += [(job.index, "decode", n + 1) for n in range(job.decodes)]
        nx.add_path(graph, [SOURCE, *chain], weight=1)
    return graph


def earliest_iterations(problem: Problem) -> dict[Node, int]:
    """Return per node the number of iterations, itself included, that have run when it is done: its longest path."""
    graph = precedence_graph(problem)
    depth = {SOURCE: 0}
    for node in nx.topological_sort(graph):
        for _, after in graph.out_edges(node):
            depth[after] = max(depth.get(after, 0), depth[node] + 1)
    return depth


def latest_iterations(problem: Problem, iterations: int) -> dict[Node, int]:
    """Return per node the last iteration (from 1) in which it can run if everything ends within `iterations`."""
    graph = precedence_graph(problem).reverse()
    left: dict[Node, int] = {}
    for node in nx.topological_sort(graph):
        left[node] = max((left[before] + 1 for before, _ in graph.in_edges(node)), default=0)
    return {node: iterations - after for node, after in left.items() if node != SOURCE}


class Bounds:
    """Lower bounds on the amounts of all objectives, in µs (a count for `slo_attainment`)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.pieces = problem.cost.pieces

    def amount(self, name: str) -> int:
        """Return a lower bound on the amount of an objective over all schedules, limits ignored."""
        value: int = getattr(self, "makespan" if name == "throughput" else name)
        return value

    @cached_property
    def depths(self) -> dict[Node, int]:
        """Earliest iterations of the precedence graph."""
        return earliest_iterations(self.problem)

    def alone_us(self, job: Job, *, whole: bool) -> int:
        """Return the least time from its arrival to the first (or last) token of a request that runs alone."""
        chunks, decodes = self.problem.fewest_chunks(job), job.decodes if whole else 0
        least = (chunks + decodes) * self.problem.shortest_us
        return max(least, *(self._work(piece, [job], chunks + decodes, decodes=whole) for piece in self.pieces))

    def _work(self, piece: Piece, jobs: Iterable[Job], iterations: int, *, decodes: bool) -> int:
        """Return what `piece` charges at least for the work of `jobs` in `iterations` iterations."""
        total = iterations * piece.base_us
        for job in jobs:
            total += self.problem.prefill_curve(piece, job)[-1]
            total += self.problem.least_decode_curve(piece, job)[-1] if decodes else 0
        return total

    @cached_property
    def first_us(self) -> dict[int, int]:
        """Per job that has a TTFT, a lower bound on it."""
        return {j.index: self.alone_us(j, whole=False) for j in self.problem.jobs if not j.request.starts_in_decode}

    @cached_property
    def last_us(self) -> dict[int, int]:
        """Per job, a lower bound on its E2E."""
        return {job.index: self.alone_us(job, whole=True) for job in self.problem.jobs}

    def fewest_iterations(self, jobs: Sequence[Job]) -> int:
        """Return the fewest iterations that all work of `jobs` needs.

        The longest chain; tokens over the budget; chunks and decodes over the seats; and blocks over the pool, where
        each token is emitted by an iteration in which its request holds prompt and tokens emitted so far.
        """
        engine, chains = self.problem.engine, [self.problem.fewest_chunks(job) + job.decodes for job in jobs]
        found = [max(chains), -(-sum(job.left + job.decodes for job in jobs) // engine.max_num_batched_tokens)]
        if engine.max_num_seqs is not None:
            found.append(-(-sum(chains) // engine.max_num_seqs))
        if engine.num_kv_blocks is not None:
            contexts = (job.held + job.left + t for job in jobs for t in range(0 if job.left else 1, job.decodes + 1))
            found.append(-(-sum(engine.blocks(context) for context in contexts) // engine.num_kv_blocks))
        return max(found)

    @cached_property
    def fewest_prefill_iterations(self) -> int:
        """The fewest iterations that all prefills need: longest chain of chunks, and tokens over the budget."""
        chunks = max(self.problem.fewest_chunks(job) for job in self.problem.jobs)
        tokens = sum(job.left for job in self.problem.jobs)
        return max(1, chunks, -(-tokens // self.problem.engine.max_num_batched_tokens))

    @cached_property
    def makespan(self) -> int:
        """The best over all arrivals r of: r, then everything that arrives at r or later."""
        best = max(job.arrival + self.last_us[job.index] for job in self.problem.jobs)
        for release in {job.arrival for job in self.problem.jobs}:
            jobs = [job for job in self.problem.jobs if job.arrival >= release]
            count = self.fewest_iterations(jobs)
            work = max(self._work(piece, jobs, count, decodes=True) for piece in self.pieces)
            best = max(best, release + work, release + count * self.problem.shortest_us)
        return best

    @cached_property
    def max_tbt(self) -> int:
        """A gap holds at least the iteration of its own decode; before time 0 some of it has passed already."""
        best = 0
        for job in self.problem.jobs:
            if not job.decodes:
                continue
            context = job.held + job.left + 1
            passed = -(job.last_token or 0)
            token_us = self.problem.least_token_us
            shortest = max(p.base_us + token_us(p, job, context) + p.tile_us(1) for p in self.pieces)
            best = max(best, shortest + passed)
        return max(best, self._running_us())

    def _running_us(self) -> int:
        """Return a bound from the requests that decode at time 0.

        Proof: let S be some of them. When the last of S has its next token, all of S have decoded once, in iterations
        that cost at least one base and those decodes; its gap counts from its last token, no later than any in S.
        """
        running = sorted((j.last_token, j.index) for j in self.problem.jobs if j.last_token is not None)
        best = 0
        for piece in self.pieces:
            decodes = 0
            for last, index in running:
                job = self.problem.jobs[index]
                decodes += self.problem.least_token_us(piece, job, job.held + 1)
                best = max(best, piece.base_us + decodes - last)
        return best

    @cached_property
    def max_ttft(self) -> int:
        """Every request alone."""
        return max(self.first_us.values(), default=0)

    @cached_property
    def mean_ttft(self) -> int:
        """The larger of every request alone, and the preemptive SRPT schedule of all prefills (see `srpt_us`)."""
        return max(sum(self.first_us.values()), self.srpt_us)

    @cached_property
    def max_e2e(self) -> int:
        """Every request alone."""
        return max(self.last_us.values())

    @cached_property
    def mean_e2e(self) -> int:
        """Every request alone, or its decodes alone after the best first tokens."""
        decodes = sum(max(self._chain_us(piece, job) for piece in self.pieces) for job in self.problem.jobs)
        return max(sum(self.last_us.values()), self.mean_ttft + decodes)

    def _chain_us(self, piece: Piece, job: Job) -> int:
        """Return what `piece` charges at least between the first and the last token of `job`."""
        return job.decodes * piece.base_us + self.problem.least_decode_curve(piece, job)[-1]

    @cached_property
    def weighted_e2e(self) -> int:
        """Every request alone."""
        return sum(job.request.weight * self.last_us[job.index] for job in self.problem.jobs)

    @cached_property
    def slo_attainment(self) -> int:
        """Requests whose SLOs are out of reach even alone."""
        return sum(self._misses_alone(job) for job in self.problem.jobs)

    def _misses_alone(self, job: Job) -> bool:
        request = job.request
        ttft = None if request.starts_in_decode else request.ttft_slo_us
        late = ttft is not None and self.first_us[job.index] > ttft
        return late or (request.e2e_slo_us is not None and self.last_us[job.index] > request.e2e_slo_us)

    @cached_property
    def srpt_us(self) -> int:
        """Σ TTFT of the preemptive SRPT schedule in which a prefill of x tokens takes F(x) + base x / K.

        Proof that it is a lower bound: an iteration of x tokens lasts base + its work, and x <= K, so at least
        base x / K + its work. Charge each prefill that share of the iterations that process it: by its first token
        request i has received p_i = ⌊F_i + base·left_i / K⌋ or more, shares never overlap in time, and none is
        received before arrival. So the first tokens are completion times of a preemptive single-machine schedule
        with release dates, whose sum SRPT minimises (Schrage 1968). The best piece is taken.
        """
        return self.srpt_without(None)

    def srpt_without(self, left_out: Job | None) -> int:
        """Return `srpt_us` of all requests but one."""
        jobs = [j for j in self.problem.jobs if not j.request.starts_in_decode and j is not left_out]
        return max(self._srpt(piece, jobs) for piece in self.pieces)

    def _srpt(self, piece: Piece, jobs: Iterable[Job]) -> int:
        budget = self.problem.engine.max_num_batched_tokens
        jobs = sorted(jobs, key=lambda j: j.arrival)
        lengths = {
            j.index: self.problem.prefill_curve(piece, j)[-1] + piece.base_us * j.left // budget for j in jobs
        }
        return srpt_total([(j.arrival, lengths[j.index]) for j in jobs])


def srpt_total(jobs: Sequence[tuple[int, int]]) -> int:
    """Return Σ (completion - release) of the preemptive shortest-remaining-first schedule.

    Parameters
    ----------
    jobs
        (release, length) in order of release.
    """
    total = clock = following = 0
    heap: list[tuple[int, int]] = []
    while heap or following < len(jobs):
        if not heap:
            clock = max(clock, jobs[following][0])
        while following < len(jobs) and jobs[following][0] <= clock:
            heappush(heap, (jobs[following][1], jobs[following][0]))
            following += 1
        left, release = heappop(heap)
        until = jobs[following][0] if following < len(jobs) else clock + left
        if clock + left <= until:
            clock += left
            total += clock - release
        else:
            heappush(heap, (left - (until - clock), release))
            clock = until
    return total
