"""An LSTM that predicts the next character, and then writes."""

import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_norm_

TEXT = "the cat sat on the mat. " * 8


class CharModel(nn.Module):
    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 8)
        self.lstm = nn.LSTM(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.head(out), state


def main():
    torch.manual_seed(0)
    characters = sorted(set(TEXT))
    index = {c: i for i, c in enumerate(characters)}
    data = torch.tensor([index[c] for c in TEXT], dtype=torch.long)
    model = CharModel(len(characters), 24)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    losses = []
    length = 16
    for step in range(40):
        start = (step * 7) % (len(data) - length - 1)
        x = data[start : start + length].unsqueeze(0)
        y = data[start + 1 : start + length + 1]
        logits, _ = model(x)
        loss = criterion(logits.view(-1, len(characters)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    written, state = "t", None
    with torch.no_grad():
        for _ in range(12):
            logits, state = model(torch.tensor([[index[written[-1]]]]), state)
            written += characters[int(torch.argmax(logits[0, -1]))]
    return {"losses": losses, "written": written}


if __name__ == "__main__":
    print(main())
