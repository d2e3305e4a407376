"""Costs on a GPU from a machine without one: the kernels, masks and precisions that torch takes there."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from porism import cost
from porism.costing.counting.conventions import Conventions
from porism.costing.counting.fake import ShapeMode
from porism.costing.counting.gpu import autocast
from porism.costing.counting.gpu.follow import gpu_followed
from porism.errors import PorismError

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there, and its own kernels are counted")

BF16 = torch.bfloat16


def kept(target: Any, *inputs: str, **options: Any) -> str:
    return str(cost(target, *inputs, device="cuda", **options).activation_bytes)


def test_dropout_keeps_one_byte_a_number() -> None:
    assert kept(nn.Dropout(0.1), "B D") == "B*D"
    assert str(cost(nn.Dropout(0.1), "B D").activation_bytes) == "4*B*D"


def attend(q: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, q, q)


def attend_where(q: Tensor) -> Tensor:
    mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device)
    return scaled_dot_product_attention(q, q, q, attn_mask=mask)


def attend_turned(q: Tensor) -> Tensor:
    """Under a bias as T5 makes it: looked up for pairs, heads last, then turned."""
    bias = torch.zeros(q.shape[2], q.shape[2], q.shape[1], dtype=q.dtype, device=q.device)
    return scaled_dot_product_attention(q, q, q, attn_mask=bias.permute(2, 0, 1)[None])


def attend_spread(q: Tensor) -> Tensor:
    mask = torch.ones(q.shape[2], 1, dtype=torch.bool, device=q.device)
    return scaled_dot_product_attention(q, q, q, attn_mask=mask.expand(-1, q.shape[2]))


# q once, the output, log-sum-exp in float32, and the state of the random generator: as hooks saw them on an H200 with
# TORCH_CUDNN_SDPA_DEPRIORITIZED=1, where torch chooses as on compute capability 8.
@pytest.mark.sweep(2, each="kernel")
@pytest.mark.parametrize(
    ("run", "width", "T", "dtype", "kernel", "expected"),
    [
        (attend, 64, 16, BF16, "flash", 2 * 2 * (2 * 4 * 16 * 64) + 4 * 2 * 4 * 16 + 24),
        (attend, 20, 16, BF16, "flash", 2 * 4 * (2 * 4 * 16 * 24) + 4 * 2 * 4 * 16 + 24),
        (attend, 64, 16, torch.float32, "efficient", 4 * 2 * (2 * 4 * 16 * 64) + 4 * 2 * 4 * 32 + 16),
        (attend_where, 64, 16, BF16, "efficient", 2 * 2 * (2 * 4 * 16 * 64) + 4 * 2 * 4 * 32 + 16 + 2 * 16 * 16),
        (attend_where, 64, 17, BF16, "efficient", 2 * 2 * (2 * 4 * 17 * 64) + 4 * 2 * 4 * 32 + 16 + 2 * 17 * 24),
        (attend_where, 64, 40, BF16, "efficient", 2 * 2 * (2 * 4 * 40 * 64) + 4 * 2 * 4 * 64 + 16 + 2 * 40 * 40),
        # No fused kernel reads a mask whose rows are not in one piece.
        (attend_turned, 64, 16, torch.float32, "math", 4 * (3 * 2 * 4 * 16 * 64 + 2 * 4 * 16 * 16)),
        (attend_spread, 64, 16, torch.float32, "math", 4 * (3 * 2 * 4 * 16 * 64 + 2 * 4 * 16 * 16)),
        (attend, 10, 16, torch.float32, "math", 4 * (3 * 2 * 4 * 16 * 10 + 2 * 4 * 16 * 16)),
    ],
)
def test_attention_takes_the_kernel_that_a_gpu_takes(
    run: Any, width: int, T: int, dtype: torch.dtype, kernel: str, expected: int
) -> None:
    found = cost(run, f"B A T {width}", device="cuda", dtype=dtype)
    names = found.target.count({"B": 2, "A": 4, "T": T}).forward[""]
    assert list(names) == (["bmm"] if kernel == "math" else [f"_scaled_dot_product_{kernel}_attention"])
    assert found.at(B=2, A=4, T=T).activation_bytes == expected


def by_mask(mask: Any, x: Tensor) -> Tensor:
    T = x.shape[2]
    return flex_attention(x, x, x, block_mask=create_block_mask(mask, None, None, T, T, device=x.device))


def pairs_in_blocks(mask: Any, T: int, side: int = 128) -> int:
    """Pairs in the blocks of which one pair is visible, pair by pair."""
    at = torch.arange(T)
    shown = mask(0, 0, at[:, None], at).expand(T, T)
    visible = torch.nn.functional.pad(shown, (0, -T % side, 0, -T % side))
    blocks = visible.unflatten(0, (-1, side)).unflatten(2, (-1, side)).any(3).any(1)
    return int(blocks.repeat_interleave(side, 0).repeat_interleave(side, 1)[:T, :T].sum())


MASKS = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k < 200),
    "first half": lambda b, h, q, k: k < 150,
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", MASKS)
def test_flex_attention_counts_the_blocks_that_its_mask_shows(name: str) -> None:
    mask = MASKS[name]
    found = cost(partial(by_mask, mask), "2 3 T 16", device="cuda")
    for T in (100, 128, 129, 300, 640):
        at = found.at(T=T)
        pairs = T * T if T <= 128 else pairs_in_blocks(mask, T)
        assert at.flops == 4 * 6 * 16 * pairs
        assert at.backward_flops == 10 * 6 * 16 * pairs


def test_flex_attention_keeps_its_output_and_two_numbers_a_row() -> None:
    found = cost(lambda x: flex_attention(x, x, x, score_mod=lambda s, b, h, q, k: s + q - k), "B A T D", device="cuda")
    # x, the output, log-sum-exp and largest score; the mask of one block that stands for none has four integers.
    assert str(found.activation_bytes) == "8*(A*B*D*T + A*B*T + 2)"
    assert str(found.flops) == "4*A*B*D*T**2"


@pytest.mark.sweep(0)  # 6 s
def test_flex_attention_under_a_mask_of_what_goes_in_is_a_lower_bound() -> None:
    def within_documents(x: Tensor, document: Tensor) -> Tensor:
        return by_mask(lambda b, h, q, k: document[q] == document[k], x)

    at = cost(within_documents, "1 1 T 8", "T : int < 5", device="cuda").at(T=300)
    assert at.flops.label == "lower bound"


def test_flex_attention_on_a_cpu_is_refused_with_what_to_do() -> None:
    with pytest.raises(PorismError, match=r"does not support backward on CPU.* count it with device='cuda'"):
        cost(lambda x: flex_attention(x, x, x), "B A T D")


def test_norms_keep_their_statistics_in_float32() -> None:
    assert kept(nn.LayerNorm(8), "B 8", dtype=BF16) == "24*B"
    assert kept(lambda x: rms_norm(x, (8,)), "B 8", dtype=BF16) == "20*B"
    assert cost(nn.RMSNorm(8), "B 8", device="cuda").flops == 0


def test_a_batch_norm_keeps_no_statistics_in_evaluation() -> None:
    norm, x = nn.BatchNorm2d(16), 2 * 16 * 9
    # The running mean and variance are buffers that autograd keeps; those of the batch are computed in training only.
    assert cost(norm.train(), "B 16 N N", device="cuda").at(B=2, N=3).activation_bytes == 4 * (x + 2 * 16 + 2 * 16)
    assert cost(norm.eval(), "B 16 N N", device="cuda").at(B=2, N=3).activation_bytes == 4 * (x + 2 * 16)


def test_an_operator_that_this_torch_does_not_cast_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert autocast.policies()["layer_norm"] == "float32"
    known = [name for name in autocast._cast("AutocastCUDA") if name != "layer_norm"]
    cast = autocast._cast
    monkeypatch.setattr(autocast, "_cast", lambda key: known if key == "AutocastCUDA" else cast(key))
    assert autocast.policies().get("layer_norm", "as it is") == "as it is"


def in_bfloat16(x: Tensor) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16):
        y = x @ x.mT
        assert x.is_cuda
        assert y.dtype is torch.bfloat16
        assert y.detach().softmax(-1).dtype is torch.float32
        assert torch.is_autocast_enabled("cuda")
    return y


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 4), nn.LayerNorm(4))

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return self.net(x)


def test_mixed_precision_casts_what_a_gpu_casts() -> None:
    # x and both weights in bfloat16, relu, the mask, what dropout gives; the norm reads float32, and keeps two numbers.
    at = cost(Mixed(), "B 8", device="cuda").at(B=3)
    assert at.activation_bytes == 2 * (3 * 8 + 8 * 16 + 16 * 4 + 2 * 3 * 16) + 3 * 16 + 4 * 3 * 4 + 2 * 4 * 3
    assert kept(in_bfloat16, "B D") == "4*B*D"


@pytest.mark.parametrize(
    ("macro", "names"),
    [
        ("LOWER_PRECISION_FP", autocast.LOWER),
        ("FP32", autocast.FLOAT32),
        ("FP32_SET_OPT_DTYPE", autocast.FLOAT32_BY_DTYPE),
        ("PROMOTE", autocast.WIDEST),
    ],
)
def test_the_lists_are_those_of_torch(macro: str, names: tuple[str, ...]) -> None:
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    if not header.is_file():
        pytest.skip("this torch comes without its headers")
    (text,) = re.findall(rf"#define AT_FORALL_{macro}\(_\)(.*?)\n\n", header.read_text(), re.DOTALL)
    listed = [".".join(part.split(", ")) for part in re.findall(r"_\(([\w, ]+)\)", text)]
    # Some names are those of other versions: torch 2.11 does not cast rms_norm, and later ones name no dimensions.
    cast = set(autocast._cast("AutocastCUDA"))
    assert sorted(name for name in names if name in cast) == sorted(listed)


def test_the_workspace_of_cudnn_is_unknown() -> None:
    found = cost(nn.LSTM(8, 8), "T B 8", device="cuda")
    assert str(found.flops) == str(cost(nn.LSTM(8, 8), "T B 8").flops)
    bytes_kept = found.at(T=5, B=4).activation_bytes
    assert bytes_kept.label == "lower bound"
    assert bytes_kept.low == 4 * (2 * 5 * 4 * 8 + 2 * 4 * 8)
    assert "without the workspace of _cudnn_rnn" in found.verdict


def test_the_verdict_names_the_device() -> None:
    assert cost(nn.ReLU(), "B").verdict.endswith(f"kernels of cpu; {Conventions().text}")
    assert cost(nn.ReLU(), "B", device="cuda").verdict.endswith(
        f"torch sees no GPU; kernels of cuda, compute capability 8; {Conventions().text}"
    )


def test_what_is_there_already_is_not_copied() -> None:
    assert kept(lambda x: x.to("cuda").to(x.device).cuda() * x, "B D") == "4*B*D"


def test_what_needs_numbers_needs_a_gpu() -> None:
    with pytest.raises(PorismError):
        cost(lambda x: x[x > 0], "B D", device="cuda")


def test_nothing_stays_behind() -> None:
    x = torch.ones(2, 1, 4, 8)
    mode = ShapeMode()
    with gpu_followed(mode):
        assert scaled_dot_product_attention(x, x, x).shape == x.shape  # a real tensor has the CPU's kernels
        with mode:
            assert torch.empty(2, device="cuda").is_cuda
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x.mT).dtype is torch.bfloat16
        assert nn.LayerNorm(8)(x).dtype is torch.float32
    assert "is_cuda" not in vars(FakeTensor)
    with mode:
        assert torch.empty(2).device.type == "cpu"
