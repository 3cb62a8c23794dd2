"""Products with frozen weights: those of the whole matrix in float32, however few rows there are."""

from __future__ import annotations

import pytest
import torch

from omnidraft.learning.training.frozen import product


@pytest.mark.parametrize("shape", [(1, 48), (3, 48), (2, 5, 48), (300, 48)])
def test_it_is_the_product_with_the_whole_matrix_and_so_is_its_gradient(shape):
    torch.manual_seed(0)
    weight = torch.randn(2100, 48).half()  # in three parts for many rows, and in nine for few
    x = torch.randn(shape, requires_grad=True)
    again = x.detach().clone().requires_grad_()
    wanted, found = again @ weight.float().T, product(x, weight)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    (found * found).sum().backward()
    (wanted * wanted).sum().backward()
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-2)
