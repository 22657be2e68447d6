"""The paper's encoder as a graph convolution, by the conventions of PyTorch Geometric."""

from __future__ import annotations

from torch import Tensor, nn

from decentrl.graph.view import GraphView
from decentrl.nn.dan import DAN


class DANConv(nn.Module):
    r"""A decentralised convolution: a node's vector is made of its neighbours' alone.

    .. math::
        g_i = \mathrm{DAN}(W x)_i, \quad
        \frac{\partial g_i}{\partial x_i} = 0 \text{ in one layer}

    It is the last layer of :class:`~decentrl.nn.dan.DAN` over the edges; PyTorch Geometric need
    not be installed. A node without incoming edges gets zeros.

    Args:
        in_channels: width of the input; if it is not ``out_channels``, W maps it to that width.
        out_channels: width of the output, whose rows have the length √out_channels.
        layers: K; with one, no node reads its own input.
        dropout: on the attention scalars.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, layers: int = 1, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.layers = in_channels, out_channels, layers
        same = in_channels == out_channels
        self.project = nn.Identity() if same else nn.Linear(in_channels, out_channels, bias=False)
        self.dan = DAN(out_channels, layers, dropout=dropout)

    def forward(self, x: Tensor, edge_index: Tensor, seen: Tensor | None = None) -> Tensor:
        """x [n, in_channels], edge_index int64[2, n_edges] → [n, out_channels].

        Args:
            edge_index: row 0 is the node that is read, row 1 the one that reads it.
            seen: bool[n], nodes whose input is known; that of others is never read.
        """
        view = GraphView.from_edges(edge_index, len(x), layers=self.layers, seen=seen)
        last: Tensor = self.dan(self.project(x), view)[-1]
        return last

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, layers={self.layers}"
