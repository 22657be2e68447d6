"""The convolution equals the DAN, and trains inside a model of PyTorch Geometric."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from decentrl.nn import DAN, DANConv, GraphView

N, D = 9, 5


def both_ways(triples: np.ndarray) -> Tensor:
    """The edges of triples, each in both directions."""
    ends = torch.from_numpy(triples[:, [0, 2]].T.copy())
    return torch.cat((ends, ends.flip(0)), 1)


@given(
    rows=st.lists(st.tuples(st.integers(0, N - 1), st.just(0), st.integers(0, N - 1)), max_size=25),
    layers=st.integers(1, 3),
    known=st.sets(st.integers(0, N - 1)),
)
@settings(deadline=None, max_examples=60)
def test_it_is_the_last_layer_of_a_dan(
    rows: list[tuple[int, int, int]], layers: int, known: set[int]
) -> None:
    triples = np.array(rows, np.int64).reshape(-1, 3)
    seen = np.isin(np.arange(N), list(known))
    torch.manual_seed(0)
    conv = DANConv(D, D, layers=layers).eval()
    dan = DAN(D, layers).eval()
    dan.load_state_dict(conv.dan.state_dict())
    x = torch.randn(N, D)
    view = GraphView.build([triples], N, 1, layers=layers, seen=seen)
    found = conv(x, both_ways(triples), torch.from_numpy(seen))
    assert torch.equal(found, dan(x, view)[-1])


def test_a_node_reads_its_sources_and_never_itself() -> None:
    conv = DANConv(D, 4).eval()
    x = torch.randn(3, D, requires_grad=True)
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 2, 1]])  # 0 → 1, 1 → 2, 2 → 1, and a loop
    out = conv(x, edges)
    assert out.shape == (3, 4)
    assert not out[0].any()  # nothing comes in
    for node, sources in ((1, {0, 2}), (2, {1})):
        (gradient,) = torch.autograd.grad(out[node].square().sum() + out[node].sum(), x,
                                          retain_graph=True)  # fmt: skip
        read = {i for i, row in enumerate(gradient) if row.abs().max() > 1e-9}
        assert read <= sources
        assert node not in read


def test_what_is_not_seen_has_no_influence() -> None:
    torch.manual_seed(0)
    conv, edges = DANConv(D, D).eval(), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 1]])
    x, seen = torch.randn(4, D), torch.tensor([True, True, True, False])
    other = x.clone()
    other[3] = 100
    assert torch.equal(conv(x, edges, seen), conv(other, edges, seen))
    assert not torch.equal(conv(x, edges), conv(other, edges))


def test_geometric_need_not_be_installed() -> None:
    code = "import sys; sys.modules['torch_geometric'] = None\nfrom decentrl.nn import DANConv"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_model_of_geometric_trains_with_it() -> None:
    """Two clubs whose members mostly know each other, in two graphs of one batch."""
    pytest.importorskip("torch_geometric")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the import are its own
        from torch_geometric.data import Batch, Data
        from torch_geometric.nn import Sequential

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    graphs = []
    for _ in range(2):
        ends = random.integers(0, 30, (2, 150))
        same = (ends[0] % 2 == ends[1] % 2) | (random.random(150) < 0.1)
        edges = torch.from_numpy(ends[:, same])
        edges = torch.cat((edges, edges.flip(0)), 1)
        graphs.append(Data(x=torch.randn(30, 8), edge_index=edges, y=torch.arange(30) % 2))
    batch = Batch.from_data_list(graphs)
    # Features say the club of some; a node's own are never read, so its neighbours' must do.
    batch.x[:, 0] += 2.0 * (batch.y * 2 - 1)
    model = Sequential(
        "x, edge_index",
        [
            (DANConv(8, 16), "x, edge_index -> x"),
            nn.ReLU(),
            (DANConv(16, 16), "x, edge_index -> x"),
            nn.Linear(16, 2),
        ],
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = torch.arange(60) < 40
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(batch.x, batch.edge_index)[train], batch.y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = model.eval()(batch.x, batch.edge_index).argmax(1) == batch.y
    assert losses[-1] < losses[0] / 2
    assert right[~train].float().mean() > 0.8
