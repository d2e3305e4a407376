"""Recurrent language models: a state goes from word to word.

    h[t] = sigmoid(h[t-1] H + e[t] I + b1)        and an LSTM's cell in place of the sigmoid

Dropout acts on e[t] and on h[t] on its way to the projection, never on the recurrent path or the carried state.
"""

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call

from porism.layers.dropout import dropout
from porism.layers.recurrent.elman import Elman
from porism.layers.recurrent.lstm import LSTM
from porism.layers.recurrent.lstm.functional import FUSED_ON_CPU
from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.recipes import LanguageRecipe
from porism.training.task import Carry

EVALUATION_STEPS = 100
EVALUATION_STEPS_ON_GPU = 500
"""Where a window of 100 is over before the next has been started from Python."""


class RecurrentModel(LanguageModel):
    """The carry holds `h` (layers, B, H), and `c` too for an LSTM."""

    def build_net(self) -> None:
        self.recurrent = _recurrent(self.recipe)

    def draw_weights(self) -> None:
        _start(self)

    @property
    def evaluation_steps(self) -> int:
        return EVALUATION_STEPS_ON_GPU if self.embedding.weight.is_cuda else EVALUATION_STEPS

    def start(self, batch: int) -> Carry:
        names = ("h", "c") if self.recipe.model == "lstm" else ("h",)
        like = self.embedding.weight
        return {name: like.new_zeros(self.recipe.num_layers, batch, self.recipe.hidden_size) for name in names}

    def run(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        embedded = self.drop(self.embed(tokens))  # T B D
        state = (carry["h"], carry["c"]) if self.recipe.model == "lstm" else carry["h"]
        if self.training and self.recipe.weight_dropout > 0:
            dropped = {
                name: dropout(weight, 1 - self.recipe.weight_dropout)
                for name, weight in self.recurrent.named_parameters()
                if name.startswith("weight_hh")
            }
            hidden, state = functional_call(self.recurrent, dropped, (embedded, state))
        else:
            hidden, state = self.recurrent(embedded, state)
        return hidden, dict(zip(("h", "c"), state, strict=True)) if self.recipe.model == "lstm" else {"h": state}


def _recurrent(recipe: LanguageRecipe) -> nn.Module:
    between = recipe.dropout if recipe.num_layers > 1 else 0.0
    if recipe.model == "lstm":
        # One model either way. On x86 torch's kernel is fused, in bf16 too, which our layer takes twice as long for.
        kind = nn.LSTM if FUSED_ON_CPU else LSTM
        return kind(recipe.embedding_dim, recipe.hidden_size, recipe.num_layers, dropout=between)
    return Elman(
        recipe.embedding_dim, recipe.hidden_size, recipe.num_layers, nonlinearity=recipe.nonlinearity, dropout=between
    )


def _start(model: RecurrentModel) -> None:
    """Glorot-uniform weights, zero biases."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    if not model.recipe.tie_weights:
        # Glorot's bound counts the inputs that are summed, and of a word's V inputs one is on.
        bound = math.sqrt(6 / (1 + model.recipe.embedding_dim))
        nn.init.uniform_(model.embedding.weight, -bound, bound)
    if model.recipe.model == "lstm":
        for name, parameter in model.recurrent.named_parameters():
            if name.startswith("bias_ih"):
                # An LSTM that starts by remembering learns sooner: the forget gate is the second quarter.
                nn.init.ones_(parameter.chunk(4)[1])
    elif model.recipe.weight_init == "orthogonal":
        _start_orthogonal(model.recurrent, model.recipe)


@torch.no_grad()
def _start_orthogonal(net: nn.Module, recipe: LanguageRecipe) -> None:
    """The recurrent weights orthogonal, so that a state lasts.

    A sigmoid net is a tanh net in disguise (see the layer's README): for a state to last it needs four times the
    weights, and a bias that takes out the half every sigmoid adds.
    """
    weights = dict(net.named_parameters())
    for layer in range(recipe.num_layers):
        recurrent = weights[f"weight_hh_l{layer}"]
        nn.init.orthogonal_(recurrent, gain=4 if recipe.nonlinearity == "sigmoid" else 1)
        if recipe.nonlinearity == "sigmoid":
            weights[f"weight_ih_l{layer}"].mul_(2)
            weights[f"bias_ih_l{layer}"].copy_(-recurrent.sum(1) / 2)
