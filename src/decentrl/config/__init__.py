"""Every setting of a run, as frozen dataclasses; TOML is their written form.

A preset is a TOML file that names only what differs from the defaults, which are those of the
preset ``strong``.
"""

from decentrl.config.alignment import Config as Config
from decentrl.config.alignment import MatchingConfig as MatchingConfig
from decentrl.config.prediction import PredictionConfig as PredictionConfig
from decentrl.config.registry import Encoders as Encoders
from decentrl.config.registry import must_grow as must_grow
from decentrl.config.registry import must_have_vectors as must_have_vectors
from decentrl.config.settings import DEFAULT_PRESET as DEFAULT_PRESET
from decentrl.config.settings import Settings as Settings
from decentrl.config.settings import preset_names as preset_names
from decentrl.config.settings import read_preset as read_preset
from decentrl.config.settings import setting as setting
from decentrl.config.settings import to_toml as to_toml
from decentrl.config.shared import FEW_LINKS as FEW_LINKS
from decentrl.config.shared import EncoderSettings as EncoderSettings
from decentrl.config.shared import Steps as Steps
