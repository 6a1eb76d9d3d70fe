"""Token-level values: input positions of a critic, and returns. R rows, T tokens.

With v_t the value before token t of a completion of T tokens, c_t the cost of that token, r the reward of the turn:

    G_{T-1} = r - c_{T-1} + gamma * mean over children ((1 - lambda) v'_0 + lambda G'_0)
    G_t     = -c_t + (1 - lambda) v_{t+1} + lambda G_{t+1}                                    A_t = G_t - v_t

This is the generalised advantage estimate (Schulman et al., arXiv 1506.02438, equation 16) over the tokens of all turns
of an agent, with gamma at the ends of turns and 1 within them, and lambda per token. With one token it is that of
`lambda_returns.lambda_returns`, with lambda 1 the discounted return less the costs from the token on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaver.agents.base.policy import LanguageModel

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenValues:
    """Values and costs of the tokens of R rows, 0 on padding.

    Attributes:
        value: (R, T) expected return before each token.
        kl_cost: (R, T) penalty of each token, subtracted from the reward at that token.
        length: (R,) values of each row, 1 or more.
    """

    value: Tensor
    kl_cost: Tensor
    length: Tensor

    @property
    def mask(self) -> Tensor:
        """(R, T) true where there is a value."""
        return torch.arange(self.value.shape[1]) < self.length[:, None]

    @property
    def earlier_cost(self) -> Tensor:
        """(R,) the sum of the costs of all tokens but the last."""
        last = torch.arange(self.value.shape[1]) == self.length[:, None] - 1
        return self.kl_cost.masked_fill(last, 0.0).sum(dim=1)

    def start(self, decay: float) -> tuple[Tensor, Tensor]:
        """(R,) a and (R,) b with G_0 = a + b * (G_{T-1} - costs of the earlier tokens).

        The bracket is the return of the whole completion, less all its costs. A recursion over turns needs only these
        two numbers of the tokens.

        Args:
            decay: lambda.
        """
        return token_returns(self, self.earlier_cost, decay)[:, 0], decay ** (self.length - 1).to(self.value)


def token_returns(tokens: TokenValues, last: Tensor, decay: float) -> Tensor:
    """G_t = -c_t + (1 - lambda) v_{t+1} + lambda G_{t+1}, backwards.

    It starts with the return of the last token.

    Args:
        tokens: of R rows.
        last: (R,) G_{T-1}, its own cost already subtracted.
        decay: lambda in [0, 1], per token.

    Returns:
        (R, T), 0 on padding.
    """
    target = torch.zeros_like(tokens.value)
    next_return = last
    for t in range(target.shape[1] - 1, -1, -1):
        inner = t < tokens.length - 1
        if t + 1 < target.shape[1]:
            mixed = (1 - decay) * tokens.value[:, t + 1] + decay * next_return - tokens.kl_cost[:, t]
            next_return = torch.where(inner, mixed, last)
        target[:, t] = torch.where(t < tokens.length, next_return, 0.0)
    return target


def token_reads(prompts: Sequence[Ids], answers: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
    """Input sequences for a value before every token, and the number of values of each.

    The value before the first token is read at the prompt's last token, that before the last at the last but one. An
    answer without tokens has the value of its prompt.

    Args:
        prompts: R prompts, each of a token or more.
        answers: R sampled answers.
    """
    ids = [(*prompt, *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
    return ids, [max(1, len(answer)) for answer in answers]


def laid_out(flat: Tensor, length: Tensor) -> Tensor:
    """(R, T) float64 from the concatenated values of R rows, 0 on padding.

    Args:
        flat: as many as the lengths add up to.
        length: (R,).
    """
    mask = torch.arange(int(length.max())) < length[:, None]
    out = torch.zeros(mask.shape, dtype=torch.float64)
    out[mask] = flat.to(out)
    return out


def speaker_label(agent: str, body: LanguageModel) -> list[int]:
    """Token ids between a joint conversation and the completion of the acting agent."""
    token_ids: list[int] = body.tokenizer(f"[{agent} says]\n", add_special_tokens=False)["input_ids"]
    return token_ids
