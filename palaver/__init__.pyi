from palaver.api.data import from_dataset as from_dataset
from palaver.api.data import to_dataset as to_dataset
from palaver.api.playing import evaluate as evaluate
from palaver.api.playing import rollout as rollout
from palaver.api.training import Run as Run
from palaver.api.training import train as train
from palaver.core import Completion as Completion
from palaver.core import Conversation as Conversation
from palaver.core import Message as Message
from palaver.core import PalaverError as PalaverError
from palaver.core import Request as Request
from palaver.core import Sampling as Sampling
from palaver.episodes import Episode as Episode
from palaver.episodes import Turn as Turn
from palaver.registry import Spec as Spec
from palaver.registry import make as make
from palaver.registry import register as register
from palaver.registry import spec as spec
from palaver.registry import specs as specs

__version__: str
