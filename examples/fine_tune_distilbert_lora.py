"""Fine-tune a DistilBERT of transformers with LoRA (Hu et al., 2021).

It tells paragraphs of two pages of Python's help apart. It needs torch, transformers and peft. Weights are random, so
that nothing is downloaded; DistilBertForSequenceClassification.from_pretrained is trained in the same way.
"""

import random
import re
from collections import Counter
from pydoc_data.topics import topics

import torch
from peft import LoraConfig, get_peft_model
from transformers import DistilBertConfig, DistilBertForSequenceClassification

import adjoint

PAGES, TOKENS, BATCH, EPOCHS = ("specialnames", "compound"), 48, 32, 15
TRAINED = {"target_modules": ["q_lin", "v_lin"], "modules_to_save": ["pre_classifier", "classifier"]}


def main() -> None:
    """Train, and print the loss, and the accuracy for paragraphs that were not trained on."""
    torch.manual_seed(0)
    paragraphs = [(part, page) for page, name in enumerate(PAGES) for part in topics[name].split("\n\n")]
    texts = [(re.findall(r"[a-z]+", part.lower()), page) for part, page in paragraphs if len(part.split()) > 8]
    random.Random(0).shuffle(texts)
    words = {word: n + 2 for n, (word, _) in enumerate(Counter(w for text, _ in texts for w in text).most_common(1000))}
    ids = torch.tensor([([words.get(w, 1) for w in text] + [0] * TOKENS)[:TOKENS] for text, _ in texts])
    data = {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([page for _, page in texts])}
    held, trained = ({key: x[part] for key, x in data.items()} for part in (slice(100), slice(100, None)))

    config = DistilBertConfig(vocab_size=1002, dim=128, hidden_dim=512, n_layers=2, n_heads=4, pad_token_id=0)
    model = get_peft_model(DistilBertForSequenceClassification(config), LoraConfig(task_type="SEQ_CLS", **TRAINED))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    trainer = adjoint.from_torch(model, None, optimizer, {key: x[:BATCH] for key, x in trained.items()})
    for epoch in range(EPOCHS):
        batches = torch.randperm(len(trained["labels"])).split(BATCH)[:-1]
        losses = [trainer.update({key: x[rows] for key, x in trained.items()}).item() for rows in batches]
        right = trainer.predict(held).logits.numpy().argmax(1) == held["labels"].numpy()
        print(f"epoch {epoch + 1}  loss {sum(losses) / len(losses):.4f}  accuracy {right.mean():.2f}")
    trainer.sync().save_pretrained("distilbert-lora")  # the adapter


if __name__ == "__main__":
    main()
