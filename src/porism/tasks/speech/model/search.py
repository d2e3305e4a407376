"""Decoding: from the encoder's output to a text, greedily, by CTC alone, or by a beam search with both.

No text has more symbols than its recording has states, and none is longer than the recipe's `max_target_length`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from porism.tasks.speech.data.symbols import CTC_BLANK, EOS, PAD, SOS
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.ctc import LOG_ZERO, PrefixScorer, collapse
from porism.tasks.speech.model.decoders import Decoder, State
from porism.tasks.speech.model.encoder import EncoderOutput


@dataclass(frozen=True)
class Search:
    """A decoding method with its settings.

    >>> encoder_out = model.encoder(features, lengths)
    >>> Search("beam", beam_size=8, ctc_weight=0.3)(model, encoder_out)     # the tokens of each, without sos and eos
    """

    kind: Literal["greedy", "ctc", "beam"] = "greedy"
    beam_size: int = 8
    """Hypotheses that are kept."""
    ctc_weight: float = 0.0
    """Weight of CTC's score beside the decoder's."""
    length_bonus: float = 0.0
    """Added to the score for every symbol, against texts that end too early."""

    def __call__(self, model: SpeechModel, encoder_out: EncoderOutput) -> list[list[int]]:
        if self.kind == "ctc":
            special = torch.tensor([SOS, EOS], device=encoder_out.states.device)
            log_probs = model.ctc_log_probs(encoder_out).index_fill(2, special, LOG_ZERO)
            return collapse(log_probs.argmax(2), encoder_out.lengths, CTC_BLANK)
        if self.kind == "beam":
            return beam_search(model, encoder_out, self)
        return greedy_search(model, encoder_out)


def greedy_search(model: SpeechModel, encoder_out: EncoderOutput) -> list[list[int]]:
    """The most probable symbol at each step, for all recordings at once, each until its eos."""
    memory = model.decoder.project(encoder_out)
    state: State | None = None
    limits = max_lengths(model, encoder_out)
    tokens = torch.full_like(limits, SOS)
    hypothesis = []
    for step in range(int(limits.max()) + 1):
        output = model.decoder(tokens[:, None], memory, state)
        state = output.state
        best = mask_special_tokens(output.logits[:, -1]).argmax(1)
        tokens = torch.where(step >= limits, EOS, best)
        hypothesis.append(tokens)
        # Once a row has ended it stays so.
        limits = torch.where(tokens == EOS, 0, limits)
        if not limits.any():
            break
    return until_eos(torch.stack(hypothesis, 1))


def beam_search(model: SpeechModel, encoder_out: EncoderOutput, search: Search) -> list[list[int]]:
    """The best of `beam_size` hypotheses that are extended side by side.

    score = (1 - ctc_weight) log P_decoder + ctc_weight log P_ctc + length_bonus * symbols
    """
    B, K, device = len(encoder_out.lengths), search.beam_size, encoder_out.states.device
    scorers: list[tuple[float, _Scorer]] = [(1 - search.ctc_weight, _DecoderScorer(model.decoder, encoder_out, K))]
    if search.ctc_weight:
        scorers.append((search.ctc_weight, _CTCScorer(model, encoder_out, K)))
    limits = max_lengths(model, encoder_out).repeat_interleave(K)[:, None]
    first_rows = torch.arange(B, device=device)[:, None] * K
    hypotheses: Tensor | None = None
    score, ended = torch.zeros(B * K, device=device), torch.zeros(B * K, dtype=torch.bool, device=device)
    for step in range(int(limits.max()) + 1):
        scores = sum(
            (weight * scorer.next_scores() for weight, scorer in scorers), start=torch.zeros((), device=device)
        )
        V = scores.shape[1]
        goes_on = torch.arange(V, device=device) != EOS
        scores = mask_special_tokens(scores) + search.length_bonus * (step + goes_on)
        scores = scores.masked_fill(goes_on & (step >= limits), LOG_ZERO)
        # A hypothesis that has ended stays as it is.
        scores = torch.where(ended[:, None], torch.where(goes_on, LOG_ZERO, score[:, None]), scores)
        # Neither does one that was impossible become possible: the scorers ignore the masks above.
        scores = scores.masked_fill((score <= LOG_ZERO / 2)[:, None], LOG_ZERO)
        if hypotheses is None:
            # All hypotheses of a recording are still the same: one of them is extended.
            scores = scores.masked_fill(torch.arange(B * K, device=device)[:, None] % K > 0, LOG_ZERO)
        best, indices = scores.view(B, K * V).topk(K, 1)  # B K
        rows, tokens = (indices // V + first_rows).flatten(), (indices % V).flatten()
        for _, scorer in scorers:
            scorer.extend(rows, tokens)
        hypotheses = tokens[:, None] if hypotheses is None else torch.cat([hypotheses[rows], tokens[:, None]], 1)
        score, ended = best.flatten(), tokens == EOS
        # Scores only fall, so that none overtakes a hypothesis that has ended; a bonus may lift them.
        if ended.all() or (search.length_bonus <= 0 and ended.view(B, K)[:, 0].all()):
            break
    assert hypotheses is not None
    return until_eos(hypotheses.view(B, K, -1)[:, 0])


class _Scorer(Protocol):
    """Keeps R hypotheses, K of each recording."""

    def next_scores(self) -> Tensor:
        """log P of each hypothesis with each token after it, (R, V)."""

    def extend(self, rows: Tensor, tokens: Tensor) -> None:
        """Go on with these hypotheses, each with one more token."""


class _DecoderScorer:
    def __init__(self, decoder: Decoder, encoder_out: EncoderOutput, beam_size: int) -> None:
        rows = torch.arange(len(encoder_out.lengths), device=encoder_out.lengths.device).repeat_interleave(beam_size)
        self.decoder = decoder
        self.memory = decoder.project(encoder_out).select(rows)
        self.state: State | None = None
        self.last = torch.full_like(rows, SOS)
        self.scores = torch.zeros(len(rows), 1, device=rows.device)

    def next_scores(self) -> Tensor:
        output = self.decoder(self.last[:, None], self.memory, self.state)
        self.state = output.state
        self.scores = self.scores + output.logits[:, -1].float().log_softmax(1)
        return self.scores

    def extend(self, rows: Tensor, tokens: Tensor) -> None:
        assert self.state is not None
        self.state = tuple(x[rows] for x in self.state)
        self.scores, self.last = self.scores[rows, tokens][:, None], tokens


class _CTCScorer:
    def __init__(self, model: SpeechModel, encoder_out: EncoderOutput, beam_size: int) -> None:
        log_probs = model.ctc_log_probs(encoder_out).repeat_interleave(beam_size, 0)
        self.scorer = PrefixScorer(log_probs, encoder_out.lengths.repeat_interleave(beam_size), CTC_BLANK)
        self.prefixes = self.scorer.start()

    def next_scores(self) -> Tensor:
        scores = self.scorer.next_scores(self.prefixes)
        # A prefix that ends is the whole text.
        scores[:, EOS] = scores[:, CTC_BLANK]
        return scores

    def extend(self, rows: Tensor, tokens: Tensor) -> None:
        # Hypotheses of one recording share its log-probabilities, so that these need no reordering.
        self.prefixes = self.scorer.extend(self.prefixes.select(rows), tokens)


def mask_special_tokens(scores: Tensor) -> Tensor:
    """Scores (R, V) that let no text contain sos or padding."""
    return scores.index_fill(1, torch.tensor([SOS, PAD], device=scores.device), LOG_ZERO)


def max_lengths(model: SpeechModel, encoder_out: EncoderOutput) -> Tensor:
    """The largest number of symbols of each recording's text, (B,)."""
    return encoder_out.lengths.clamp(max=model.recipe.max_target_length)


def until_eos(tokens: Tensor) -> list[list[int]]:
    """
    >>> until_eos(torch.tensor([[7, 8, EOS, 9]]))
    [[7, 8]]
    """
    return [row[: row.index(EOS)] if EOS in row else row for row in tokens.tolist()]
