"""Products with frozen weights, adapted or not: those of the whole matrix in float32, however few rows there are."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from omnidraft.learning.training.drafter import AdaptedLinear
from omnidraft.learning.training.frozen import FrozenLinear, product


@pytest.mark.parametrize("shape", [(1, 48), (3, 48), (2, 5, 48), (300, 48)])
def test_it_is_the_product_with_the_whole_matrix_and_so_is_its_gradient(shape):
    torch.manual_seed(0)
    weight = torch.randn(6000, 48).half()  # in two parts
    x = torch.randn(shape, requires_grad=True)
    again = x.detach().clone().requires_grad_()
    wanted, found = again @ weight.float().T, product(x, weight)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    (found * found).sum().backward()
    (wanted * wanted).sum().backward()
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-2)


def test_in_bfloat16_it_is_the_product_but_for_what_that_rounds_and_so_is_its_gradient():
    torch.manual_seed(0)
    weight, x = torch.randn(6000, 48).bfloat16(), torch.randn(30, 48, requires_grad=True)
    found, wanted = product(x, weight), x @ weight.float().T
    gradient = torch.randn(30, 6000)
    gradients = (torch.autograd.grad(y, x, gradient)[0] for y in (found, wanted))
    for ours, exact in ((found, wanted), tuple(gradients)):
        assert ours.dtype == torch.float32
        assert (ours - exact).norm() < 0.005 * exact.norm()


class RowsMultiplied(TorchDispatchMode):
    """rows: of the left matrices of all products."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.mm.default:
            self.rows.add(len(args[0]))
        return function(*args, **(kwargs or {}))


def test_products_in_bfloat16_are_compiled_for_few_numbers_of_rows():
    weight = torch.randn(64, 48).bfloat16()
    with RowsMultiplied() as seen:
        for rows in range(1, 129):
            x = torch.randn(rows, 48, requires_grad=True)
            product(x, weight).sum().backward()
    assert 1 <= len(seen.rows) <= 4


@pytest.mark.parametrize("kept", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 48), (2, 5, 48)])
def test_with_an_adapter_it_is_what_peft_adds_up_and_so_are_its_gradients(shape, bias, kept):
    torch.manual_seed(0)
    model = nn.Sequential(FrozenLinear(48, 6000, bias=bias))
    model[0].weight.data = model[0].weight.data.to(kept)
    config = LoraConfig(r=4, lora_alpha=4, target_modules=["0"], init_lora_weights=False)
    config._register_custom_module({FrozenLinear: AdaptedLinear})
    get_peft_model(model, config)
    layer, x = model[0], torch.randn(shape, requires_grad=True)
    trained = (x, layer.lora_A["default"].weight, layer.lora_B["default"].weight)
    assert isinstance(layer, AdaptedLinear)

    def with_gradients(y: torch.Tensor) -> list[torch.Tensor]:
        return [y, *torch.autograd.grad((y * y).sum(), trained)]

    for found, wanted in zip(with_gradients(layer(x)), with_gradients(Linear.forward(layer, x)), strict=True):
        if kept == torch.float16:
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
        assert (found - wanted).norm() < 0.01 * wanted.norm()
    layer.enable_adapters(False)
    torch.testing.assert_close(layer(x), layer.base_layer(x))
