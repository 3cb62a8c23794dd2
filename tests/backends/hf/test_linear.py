"""The layers that stand in for torch's compute what torch's do, row by row, whatever the number of rows."""

import copy

import pytest

ROWS = (1, 2, 3, 4, 5, 8, 17, 130)


@pytest.fixture(autouse=True)
def no_layer_is_small(monkeypatch: pytest.MonkeyPatch):
    from omnidraft.backends.hf import load

    monkeypatch.setattr(load, "_SMALL", 0)


@pytest.fixture(scope="module")
def layers():
    """(two layers in a model, one with bias; odd sizes)."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(70, 33), torch.nn.ReLU(), torch.nn.Linear(33, 101, bias=False)).eval()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.02)])
def test_packed_layers_compute_the_same(layers, dtype: str, tolerance: float):
    import torch

    from omnidraft.backends.hf.load import PackedLinear, pack_linears

    plain = copy.deepcopy(layers).to(getattr(torch, dtype))
    packed = copy.deepcopy(plain)
    if not pack_linears(packed):
        pytest.skip(f"this build of torch packs no {dtype}")
    assert [type(module) for module in packed].count(PackedLinear) == 2
    with torch.inference_mode():
        for rows in ROWS:
            x = torch.randn(1, rows, 70).to(plain[0].weight.dtype)
            torch.testing.assert_close(packed(x), plain(x), atol=tolerance, rtol=tolerance)
