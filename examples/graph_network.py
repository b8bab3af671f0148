"""Classify the nodes of a graph by a graph convolutional network: Kipf and Welling, 2017.

The graph is generated: it has communities, whose nodes are mostly linked with each other. Few nodes are labelled, and
the features of a node say little about its community, so labels have to spread along the edges. This is a PyTorch
script of which only the imports have been changed. They were import torch, from torch import nn, and
import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

NODES, COMMUNITIES, DEGREE, INSIDE, FEATURES, NOISE = 2000, 6, 8, 0.8, 32, 5.0
LABELLED, HIDDEN, DROPOUT, STEPS, RATE, DECAY = 10, 64, 0.5, 200, 0.01, 5e-4


class GCNLayer(nn.Module):
    """Each node gets the weighted sum of what its neighbours send."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, source, target, weight):
        messages = self.linear(x)[source] * weight.unsqueeze(1)
        received = torch.zeros(x.size(0), messages.size(1)).index_add_(0, target, messages)
        return received + self.bias


class GCN(nn.Module):
    """Features of nodes, and edges, to scores of classes."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv1 = GCNLayer(features, HIDDEN)
        self.conv2 = GCNLayer(HIDDEN, classes)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x, source, target, weight):
        x = F.relu(self.conv1(self.drop(x), source, target, weight))
        return self.conv2(self.drop(x), source, target, weight)


def normalized(source, target, nodes: int):
    """The edges in both directions and a loop at each node, each weighted by the degrees of its ends."""
    loops = torch.arange(nodes)
    source, target = torch.cat((source, target, loops)), torch.cat((target, source, loops))
    degree = torch.zeros(nodes).scatter_add_(0, target, torch.ones(target.shape))
    scale = degree.rsqrt()
    return source, target, scale[source] * scale[target]


def communities():
    """Random features, edges and classes: an edge stays inside a community with probability `INSIDE`."""
    labels = torch.arange(NODES) % COMMUNITIES
    centres = torch.randn(COMMUNITIES, FEATURES)
    x = centres[labels] + NOISE * torch.randn(NODES, FEATURES)
    edges = NODES * DEGREE // 2
    source = torch.randint(NODES, (edges,))
    same = torch.randint(NODES // COMMUNITIES, (edges,)) * COMMUNITIES + labels[source]
    target = torch.where(torch.rand(edges) < INSIDE, same, torch.randint(NODES, (edges,)))
    return x, source, target, labels


def main() -> None:
    """Train with the labels of a few nodes, and count which of the others are classified correctly."""
    torch.manual_seed(0)
    x, source, target, labels = communities()
    source, target, weight = normalized(source, target, NODES)
    order = torch.randperm(NODES)
    known, others = order[: LABELLED * COMMUNITIES], order[LABELLED * COMMUNITIES :]
    model = GCN(FEATURES, COMMUNITIES)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY)
    for step in range(STEPS):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, source, target, weight)[known], labels[known])
        loss.backward()
        optimizer.step()
        if step % (STEPS // 5) == 0 or step == STEPS - 1:
            model.eval()
            with torch.no_grad():
                found = model(x, source, target, weight).argmax(1)
            accuracy = (found[others] == labels[others]).float().mean()
            print(f"step {step}  loss {loss.item():.4f}  accuracy of the others {accuracy.item():.1%}")


if __name__ == "__main__":
    main()
