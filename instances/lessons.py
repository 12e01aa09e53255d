"""The lesson behind chunked prefill, in ten small functions.

A language model serves many requests at once, one *iteration* after the other. A request first has its prompt read
(*prefill*, thousands of tokens that can share one iteration), then writes its answer one token per iteration
(*decode*). An iteration lasts as long as all the work in it together, and every request in it waits for its end.
So one long prompt, put whole into one iteration, makes everybody else's next token late. Cut into *chunks*, it
costs the same in total but delays each token only a little.

The toy costs are 1 ms per decode and 0.1 ms per prompt token. All times are in ms, computed by the same
`instances.cost_model.CostModel` as everything else here, in integer µs; so 29.2 is exactly ``29.2``.

The whole lesson
----------------
Four requests are being answered; each sees a token every 4 ms:

>>> iteration_time(decodes=4, prefill_tokens=0)
4.0

A prompt of 2000 tokens arrives and is prefilled in one go: that iteration takes 204 ms, 51 times as long.

>>> iteration_time(decodes=4, prefill_tokens=2000)
204.0
>>> stall_factor(decodes=4, prompt_tokens=2000), added_delay(decodes=4, prompt_tokens=2000)
(51.0, 200.0)

With a budget of 256 tokens per iteration, four are for the decodes and 252 for the prompt:

>>> chunk = chunk_size(token_budget=256, decodes=4)
>>> chunks = plan_chunks(2000, chunk)
>>> chunks
[252, 252, 252, 252, 252, 252, 252, 236]
>>> [chunked_iteration_time(4, tokens) for tokens in chunks]
[29.2, 29.2, 29.2, 29.2, 29.2, 29.2, 29.2, 27.6]

The longest wait for a token falls from 204 ms to 29.2 ms, and not one token was lost:

>>> worst_stall(4, chunk), tokens_processed(chunks)
(29.2, 2000)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instances.cost_model import CostModel
from instances.errors import InputError
from instances.units import as_int, ms_from_us, ps_from_ms

DECODE_MS = 1.0
"""Toy cost of one decode."""
PREFILL_MS = 0.1
"""Toy cost of one prompt token."""


def _iteration_us(decodes: int, prefill_tokens: int, decode_cost: float, prefill_cost: float) -> int:
    decodes = as_int(decodes, "decodes", minimum=0)
    prefill_tokens = as_int(prefill_tokens, "prefill_tokens", minimum=0)
    cost = CostModel.linear(
        prefill_ps=ps_from_ms(prefill_cost, "prefill_cost"), decode_ps=ps_from_ms(decode_cost, "decode_cost")
    )
    chunks = [(0, prefill_tokens)] if prefill_tokens else []
    return cost.duration_us(chunks, [1] * decodes)  # the toy model does not look at the contexts


def iteration_time(
    decodes: int, prefill_tokens: int, decode_cost: float = DECODE_MS, prefill_cost: float = PREFILL_MS
) -> float:
    """Return how long one iteration takes, in ms: ``decodes * decode_cost + prefill_tokens * prefill_cost``.

    Parameters
    ----------
    decodes
        Requests that write one token each in this iteration.
    prefill_tokens
        Prompt tokens that are read in the same iteration.
    decode_cost, prefill_cost
        ms per decode and per prompt token.

    Raises
    ------
    ValueError
        For negative or fractional counts and negative costs.

    Examples
    --------
    >>> iteration_time(4, 0), iteration_time(4, 2000)
    (4.0, 204.0)
    """
    return ms_from_us(_iteration_us(decodes, prefill_tokens, decode_cost, prefill_cost))


def stall_factor(decodes: int, prompt_tokens: int) -> float:
    """Return how many times longer an iteration of `decodes` takes with a whole prompt in it.

    Raises
    ------
    ValueError
        If ``decodes < 1``: with nobody waiting there is nothing to stall.

    Examples
    --------
    >>> stall_factor(4, 2000)
    51.0
    """
    if as_int(decodes, "decodes") < 1:
        raise InputError.expected("at least one running decode", decodes, "decodes")
    return iteration_time(decodes, prompt_tokens) / iteration_time(decodes, 0)


def added_delay(decodes: int, prompt_tokens: int) -> float:
    """Return the ms by which a whole prompt makes the next token of each of `decodes` late.

    Examples
    --------
    >>> added_delay(4, 2000)
    200.0
    """
    alone = _iteration_us(decodes, 0, DECODE_MS, PREFILL_MS)
    return ms_from_us(_iteration_us(decodes, prompt_tokens, DECODE_MS, PREFILL_MS) - alone)


def total_prompt_cost(prompts: Iterable[int]) -> float:
    """Return the ms that it takes to prefill prompts of these many tokens, however they are cut.

    Examples
    --------
    >>> total_prompt_cost([2000]), total_prompt_cost([252] * 7 + [236])
    (200.0, 200.0)
    """
    return ms_from_us(sum(_iteration_us(0, prompt, DECODE_MS, PREFILL_MS) for prompt in prompts))


def chunk_size(token_budget: int, decodes: int) -> int:
    """Return the prompt tokens that fit beside the decodes: ``max(0, token_budget - decodes)``.

    Decodes go first and take one token of the budget each; what is left is the chunk.

    Examples
    --------
    >>> chunk_size(256, 4), chunk_size(4, 256)
    (252, 0)
    """
    budget = as_int(token_budget, "token_budget", minimum=0)
    return max(0, budget - as_int(decodes, "decodes", minimum=0))


def plan_chunks(prompt_tokens: int, chunk: int) -> list[int]:
    """Return the sizes of the chunks of a prompt: full ones, then the rest.

    Raises
    ------
    ValueError
        If ``chunk < 1``: the prompt would never end.

    Examples
    --------
    >>> plan_chunks(2000, 900)
    [900, 900, 200]
    """
    tokens = as_int(prompt_tokens, "prompt_tokens", minimum=0)
    size = as_int(chunk, "chunk", minimum=1)
    full, rest = divmod(tokens, size)
    return [size] * full + ([rest] if rest else [])


def chunked_iteration_time(decodes: int, chunk: int) -> float:
    """Return how long an iteration of `decodes` and one chunk takes, in ms.

    Examples
    --------
    >>> chunked_iteration_time(4, 252), chunked_iteration_time(4, 236)
    (29.2, 27.6)
    """
    return iteration_time(decodes, chunk)


def worst_stall(decodes: int, chunk: int) -> float:
    """Return the longest time between two tokens of a running request, in ms, while chunks of this size go by.

    It is the time of the iteration that holds a full chunk. Smaller chunks make it shorter, but the prompt then
    needs more iterations.

    Examples
    --------
    >>> worst_stall(4, 252)
    29.2
    """
    return chunked_iteration_time(decodes, chunk)


def tokens_processed(chunks: Iterable[int]) -> int:
    """Return the prompt tokens in the chunks together: cutting loses none.

    Examples
    --------
    >>> tokens_processed(plan_chunks(2000, 252))
    2000
    """
    return sum(as_int(chunk, f"chunks[{index}]", minimum=0) for index, chunk in enumerate(chunks))


def utilization(rows: Sequence[Sequence[object | None]], slots: int) -> float:
    """Return the share of slots in use, over iterations that cost the same.

    Parameters
    ----------
    rows
        Per iteration, the request in each slot; None for an empty slot. A row may be shorter than `slots`.
    slots
        Requests that one iteration can hold.

    Raises
    ------
    ValueError
        Without iterations or slots, or where a row has more entries than slots.

    Examples
    --------
    Requests a, b, c want 2, 1 and 2 tokens. A static batch waits for its longest request; continuous batching
    gives b's slot to c at once:

    >>> static = [["a", "b"], ["a", None], ["c", None], ["c", None]]
    >>> continuous = [["a", "b"], ["a", "c"], [None, "c"]]
    >>> utilization(static, 2) == 5 / 8, utilization(continuous, 2) == 5 / 6
    (True, True)
    """
    slots = as_int(slots, "slots", minimum=1)
    if not rows:
        raise InputError.expected("at least one iteration", [], "rows")
    for index, row in enumerate(rows):
        if len(row) > slots:
            raise InputError.expected(f"at most {slots} entries (slots)", len(row), f"rows[{index}]")
    used = sum(request is not None for row in rows for request in row)
    return used / (slots * len(rows))
