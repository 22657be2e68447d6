"""Ways to answer a question (h, r, ?): an encoder makes vectors, a decoder scores them."""

from decentrl.scorers.encoder import Encoded, PredictionEncoder
from decentrl.scorers.registry import register_prediction_encoder

__all__ = ["Encoded", "PredictionEncoder", "register_prediction_encoder"]
