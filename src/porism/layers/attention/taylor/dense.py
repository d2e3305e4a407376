"""Taylor attention pair by pair, which is faster than sums over features where texts are short."""

import torch
from torch import Tensor

from porism.layers.attention.method import DENSE, Method, fits_densely, trial
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.request import AttentionRequest, RequestSizes, share
from porism.layers.attention.softmax.method import check_dense
from porism.layers.attention.taylor.feature_maps import exponential
from porism.layers.attention.taylor.method import check_request, order_of, refuse_window, serves_series
from porism.layers.autocast import without_autocast


class DenseTaylor(Method):
    """`taylor_attention` pair by pair, without features, in float32 or better. Time and memory grow with T S."""

    name = "dense-taylor"
    exact = False
    is_dense = True

    def serves(self, sizes: RequestSizes) -> bool:
        return serves_series(sizes) and fits_densely(sizes)

    def kind(self, sizes: RequestSizes) -> str:
        return f"{self.name} with a mask" if sizes.is_limited else self.name

    def check(self, request: AttentionRequest) -> None:
        refuse_window(self, request)
        check_dense(self, request)
        check_request(request)

    def attend(self, request: AttentionRequest) -> Tensor:
        q, A = request.q, request.q.shape[1]
        exact = torch.promote_types(q.dtype, torch.float32)
        with without_autocast(q):
            keys, values = share(request.k.to(exact), A), share(request.v.to(exact), A)
            weights = exponential((request.scale * q.to(exact)) @ keys.mT, order_of(request))
            limits = request.dense_mask()
            if limits is None:
                # Of an even order no weight is 0, so that only without keys there is nothing to divide by.
                total = weights.sum(-1, keepdim=True) if request.k.shape[2] > 0 else 1.0
                return (weights @ values / total).to(q.dtype)
            weights = weights * limits.pairs
            # A query that attends to no key has weights for all of them here, and a sum that is not 0.
            answer = weights @ values / weights.sum(-1, keepdim=True)
            return limits.hide_blind(answer).to(q.dtype)

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.softmax.cost import dense_work

        return dense_work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        pattern = FULL if kind == self.name else CAUSAL
        return [trial(*some, device, pattern, is_dense=True, narrow=True) for some in DENSE]


DENSE_TAYLOR = DenseTaylor()
