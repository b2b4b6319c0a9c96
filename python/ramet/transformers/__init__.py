"""Training and prediction for models of Hugging Face's transformers: Trainer, TrainingArguments, pipeline. See docs/hugging-face.md."""

from .arguments import Seq2SeqTrainingArguments, TrainingArguments
from .objective import Objective
from .pipelines import pipeline
from .sentences import SentenceEncoder, SentencePairCollator, SentencePairs
from .speech import SpeechRecognition, ctc_loss
from .trainer import Seq2SeqTrainer, Trainer

__all__ = ["Objective", "SentenceEncoder", "SentencePairCollator", "SentencePairs", "Seq2SeqTrainer", "Seq2SeqTrainingArguments", "SpeechRecognition", "Trainer",
           "TrainingArguments", "ctc_loss", "pipeline"]
