"""Which model an encoder's name stands for, and what it reads of two graphs."""

from __future__ import annotations

from typing import Any

import torch

from decentrl.config import ModelConfig
from decentrl.graph.centralised import CentralisedView
from decentrl.graph.merged import MergedGraph
from decentrl.nn.alignment import AlignmentModel
from decentrl.nn.relational import RelationalModel
from decentrl.nn.rivals.alinet import AliNet
from decentrl.nn.rivals.centralised import CentralisedModel
from decentrl.nn.rivals.gat import GAT
from decentrl.nn.rivals.gcn import GCNAlign
from decentrl.nn.rivals.translational import TranslationalModel

Model = AlignmentModel | RelationalModel | CentralisedModel | TranslationalModel
MODELS: dict[str, type[Model]] = {
    "dan": AlignmentModel,
    "reflection": RelationalModel,
    "gcn": GCNAlign,
    "gat": GAT,
    "alinet": AliNet,
    "transe": TranslationalModel,
    "rotate": TranslationalModel,
}


def reads_links(model: ModelConfig) -> bool:
    """Whether what an encoder reads depends on the links, too."""
    return model.counterparts and model.encoder in ("dan", "gcn", "gat", "alinet")


def read_graph(
    graph: MergedGraph, trained_on: MergedGraph, model: ModelConfig, device: torch.device
) -> Any:
    """What the encoder reads of a graph: ``GraphView``, ``RelationalView``, ``CentralisedView`` or
    the ``MergedGraph`` itself, as it needs it.

    Args:
        trained_on: the graph known in training.
    """
    if model.encoder == "reflection":
        return graph.relational_view(trained_on, device)
    if model.encoder in ("transe", "rotate"):
        return graph
    if not model.inductive:
        return CentralisedView.build(
            graph,
            functional=model.encoder == "gcn",
            two_hop=model.encoder == "alinet",
            counterparts=model.counterparts,
            trained_on=trained_on,
        ).to(device)
    return graph.view(
        layers=model.layers,
        order=2 if model.variant == "second-order" else 1,
        two_hop=model.hops == "alternating",
        residual=model.residual,
        self_entity=model.self_entity,
        counterparts=model.counterparts,
        trained_on=trained_on,
    ).to(device)
