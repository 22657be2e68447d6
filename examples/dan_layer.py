"""A DAN as a layer of your own model: classify the nodes of a graph, new nodes included.

Two clubs, whose members mostly know each other. The model is trained to classify members by club.
Then members join that it has never seen, and are classified at once, without training, by their
acquaintances: a DAN never reads an entity's own embedding, so a new entity needs none.

    python examples/dan_layer.py
"""

import numpy as np
import torch
from torch import nn

from decentrl.nn import DAN, GraphView

MEMBERS, NEW, DIM, LAYERS = 60, 4, 16, 2
N = MEMBERS + NEW  # the last few ids are those of members that join later


class Classifier(nn.Module):
    """Input embeddings, a DAN over them, and a linear layer on the DAN's output."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.randn(N, DIM))
        self.dan = DAN(DIM, LAYERS)
        self.club = nn.Linear(DIM, 2)

    def forward(self, view: GraphView) -> torch.Tensor:
        return self.club(self.dan(self.embeddings, view)[-1])


torch.manual_seed(0)
random = np.random.default_rng(0)
clubs = torch.arange(N) % 2
meetings = random.integers(0, MEMBERS, (400, 2))
friends = meetings[(meetings[:, 0] % 2 == meetings[:, 1] % 2) | (random.random(400) < 0.2)]
triples = np.insert(friends, 1, 0, axis=1)  # (member, knows, member): one relation, number 0

model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
view = GraphView.build([triples], N, 1, layers=LAYERS)
labelled = torch.arange(MEMBERS // 2)  # training labels: the clubs of half of the members
for _ in range(100):
    loss = nn.functional.cross_entropy(model(view)[labelled], clubs[labelled])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

newcomers = np.arange(MEMBERS, N)
acquaintances = [(new, 0, new % 2 + 2 * i) for new in newcomers for i in random.integers(0, 30, 3)]
seen = view.seen.numpy()  # only these have a trained embedding
grown = GraphView.build([triples, np.array(acquaintances)], N, 1, layers=LAYERS, seen=seen)
with torch.no_grad():
    right = model.eval()(grown).argmax(1) == clubs
print(
    f"{right[MEMBERS // 2 : MEMBERS].float().mean():.0%} of the members without a label are right"
)
for new in newcomers:
    print(f"newcomer {new}: club {clubs[new]}, {'found' if right[new] else 'missed'}")
