"""Fit y = 2 a + 3 b with tensors, as in PyTorch: python examples/linear_regression_tensors.py."""

import adjoint as torch

STEPS = 500


def main() -> None:
    """Train until the weights are 2 and 3."""
    x = torch.tensor([[1.0, 2.0], [2.0, 3.0], [4.0, 6.0], [3.0, 1.0]])
    y = torch.tensor([[8.0], [13.0], [26.0], [9.0]])
    w = torch.tensor([[2.0], [1.0]], requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.01)
    for step in range(1, STEPS + 1):
        loss = ((x @ w - y) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (1, 2, 3, 50, 100):
            print(f"step {step:3}  loss {loss.item():.7g}")
    print("weights", w.flatten().tolist())


if __name__ == "__main__":
    main()
