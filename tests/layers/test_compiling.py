import torch

from porism.layers.compiling import assume_constant_result


def test_the_mark_is_the_one_that_torch_leaves() -> None:
    def ours() -> None: ...

    def torchs() -> None: ...

    assert vars(assume_constant_result(ours)) == vars(torch.compiler.assume_constant_result(torchs)) != {}
