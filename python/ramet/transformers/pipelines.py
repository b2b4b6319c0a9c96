"""Prediction for the usual tasks, with programs of one length: `pipeline(task, model, tokenizer)`."""

import difflib
import os

import numpy
import torch
import transformers
from torch import nn

from ramet.errors import Error

from .batches import columns_of, rows_of, tensors_of
from .compiled import CompiledPrediction, complete
from .sentences import SentenceEncoder


class _Prediction(nn.Module):
    """A module whose named outputs are tensors."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        return {name: value for name, value in self.module(**inputs).items() if isinstance(value, torch.Tensor)}


class _Embeddings(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.sentences = SentenceEncoder(encoder)

    def forward(self, **inputs):
        return {"embeddings": self.sentences(**inputs)}


class Pipeline:
    """What all tasks share. A call takes one input or a list of them, and returns one result or a list. The program is compiled at
    the first call for `batch_size` inputs of `max_length`; shorter inputs are padded inside, and longer ones are cut."""

    auto_class = "AutoModel"
    wrapper = _Prediction

    def __init__(self, model, tokenizer=None, processor=None, max_length=None, batch_size=8, layout="", precision="f32", threads=None):
        self.model, self.tokenizer, self.processor = model.eval(), tokenizer, processor
        self.batch_size, self.max_length = batch_size, max_length or self._longest()
        self.options = _Options(layout, precision, None, threads)
        self.program = None

    def _longest(self):
        limit = getattr(self.model.config, "max_position_embeddings", 512) or 512
        return min(limit, getattr(self.tokenizer, "model_max_length", limit), 128)

    def __call__(self, inputs, **settings):
        many = isinstance(inputs, list)
        results = self._results(list(self._rows(inputs if many else [inputs])), **settings)
        return results if many else results[0]

    def _rows(self, inputs):
        """(input, encoded batch's row, outputs' row) of each input."""
        for first in range(0, len(inputs), self.batch_size):
            chosen = inputs[first:first + self.batch_size]
            encoded = self._encode(chosen)
            outputs = self._run(tensors_of(self._accepted(encoded), "pipeline"))
            for row, item in enumerate(chosen):
                yield item, _Row(encoded, row), {name: value[row].float().numpy() for name, value in outputs.items()}

    def _accepted(self, encoded):
        known = columns_of(self.model, []) or set(encoded)
        return {name: value for name, value in encoded.items() if name in known}

    def _run(self, batch):
        rows = rows_of(batch)
        batch = complete(batch, self.batch_size)
        if self.program is None or not self.program.is_current():
            self.program = CompiledPrediction(self.wrapper(self.model), batch, self.options)
        return {name: value[:rows] for name, value in self.program.predict(batch).items() if value.dim() and value.shape[0] == self.batch_size}

    def _encode(self, texts):
        if self.tokenizer is None:
            raise Error("there is no tokenizer", "pipeline", "", "", "Pass tokenizer=")
        return self.tokenizer(texts, padding="max_length", truncation=True, max_length=self.max_length, return_tensors="np",
                              **self._more_of_tokenizer())

    def _more_of_tokenizer(self):
        return {}

    def _label(self, index):
        return self.model.config.id2label.get(int(index), f"LABEL_{index}")


class _Row:
    def __init__(self, encoded, row):
        self.encoded, self.row = encoded, row

    def __getitem__(self, name):
        return self.encoded[name][self.row]

    def __contains__(self, name):
        return name in self.encoded


class _Options:
    def __init__(self, layout, precision, device_memory, threads):
        self.layout, self.precision, self.device_memory, self.threads = layout, precision, device_memory, threads
        self.chunks = self.parts = self.axes = None


def _softmax(logits):
    shifted = numpy.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


class _Classification(Pipeline):
    default_top = 5

    def _results(self, rows, top_k=None, function_to_apply=None):
        top_k = self.default_top if top_k is None else top_k
        results = []
        for _, _, outputs in rows:
            scores = self._scores(outputs["logits"], function_to_apply)
            order = numpy.argsort(-scores, kind="stable")[:top_k]
            found = [{"label": self._label(index), "score": float(scores[index])} for index in order]
            results.append(found[0] if self.default_top == 1 and top_k == 1 else found)
        return results

    def _scores(self, logits, function):
        config = self.model.config
        if function is None:
            several = getattr(config, "problem_type", None) == "multi_label_classification" or config.num_labels == 1
            function = "none" if getattr(config, "problem_type", None) == "regression" else "sigmoid" if several else "softmax"
        if function not in ("softmax", "sigmoid", "none"):
            raise Error("function_to_apply is unknown", "pipeline", repr(function), "softmax, sigmoid, none")
        return logits if function == "none" else 1 / (1 + numpy.exp(-logits)) if function == "sigmoid" else _softmax(logits)


class TextClassification(_Classification):
    """[{"label", "score"}] of texts, or of (text, second text)."""

    auto_class, default_top = "AutoModelForSequenceClassification", 1

    def _encode(self, texts):
        if isinstance(texts[0], (tuple, dict)):
            texts = [(text["text"], text["text_pair"]) if isinstance(text, dict) else text for text in texts]
            texts = [list(text) for text in texts]
        return super()._encode(texts)


class ImageClassification(_Classification):
    """[{"label", "score"}] of images (PIL images or arrays), five at most unless top_k says so."""

    auto_class = "AutoModelForImageClassification"

    def _longest(self):
        return None

    def _encode(self, images):
        if self.processor is None:
            raise Error("there is no image processor", "pipeline", "", "", "Pass image_processor=")
        return dict(self.processor(images, return_tensors="np"))


class AudioClassification(_Classification):
    """[{"label", "score"}] of sounds (arrays of samples). Every sound is cut, or filled with silence, to max_length samples."""

    auto_class = "AutoModelForAudioClassification"

    def _longest(self):
        return 16000

    def _encode(self, sounds):
        if self.processor is None:
            raise Error("there is no feature extractor", "pipeline", "", "", "Pass feature_extractor=")
        return dict(self.processor([numpy.asarray(sound, numpy.float32) for sound in sounds], sampling_rate=self.processor.sampling_rate,
                                   padding="max_length", max_length=self.max_length, truncation=True, return_tensors="np"))


class TokenClassification(Pipeline):
    """[{"entity", "score", "index", "word", "start", "end"}] of each text, without special tokens and without the label O."""

    auto_class = "AutoModelForTokenClassification"

    def _more_of_tokenizer(self):
        return {"return_offsets_mapping": self.tokenizer.is_fast, "return_special_tokens_mask": True}

    def _results(self, rows, ignore_labels=("O",)):
        return [self._entities(text, row, _softmax(outputs["logits"]), ignore_labels) for text, row, outputs in rows]

    def _entities(self, text, row, scores, ignored):
        found, offsets = [], row["offset_mapping"] if "offset_mapping" in row else None
        for index, (token, special) in enumerate(zip(row["input_ids"], row["special_tokens_mask"])):
            label = self._label(scores[index].argmax())
            if special or label in ignored:
                continue
            start, end = (int(offsets[index][0]), int(offsets[index][1])) if offsets is not None else (None, None)
            found.append({"entity": label, "score": float(scores[index].max()), "index": index,
                          "word": self.tokenizer.convert_ids_to_tokens(int(token)), "start": start, "end": end})
        return found


class FillMask(Pipeline):
    """[{"score", "token", "token_str", "sequence"}] of each text with one mask token; of several masks: a list for each."""

    auto_class = "AutoModelForMaskedLM"

    def _results(self, rows, top_k=5):
        return [self._filled(text, row, outputs["logits"], top_k) for text, row, outputs in rows]

    def _filled(self, text, row, logits, top_k):
        numbers = row["input_ids"]
        places = numpy.flatnonzero(numbers == self.tokenizer.mask_token_id)
        if len(places) == 0:
            raise Error("the text has no mask token", "pipeline", repr(text), self.tokenizer.mask_token, "Write the mask token in the text")
        kept = numbers[:int(row["attention_mask"].sum())]
        lists = []
        for place in places:
            scores = _softmax(logits[place])
            best = numpy.argsort(-scores, kind="stable")[:top_k]
            lists.append([self._filling(kept, place, int(token), float(scores[token])) for token in best])
        return lists[0] if len(lists) == 1 else lists

    def _filling(self, numbers, place, token, score):
        filled = numbers.copy()
        filled[place] = token
        return {"score": score, "token": token, "token_str": self.tokenizer.decode([token]),
                "sequence": self.tokenizer.decode(filled, skip_special_tokens=True)}


class QuestionAnswering(Pipeline):
    """{"score", "start", "end", "answer"} of each {"question", "context"}. A long context is read in windows that overlap."""

    auto_class = "AutoModelForQuestionAnswering"

    def __init__(self, *args, doc_stride=32, max_answer_len=15, **kwargs):
        super().__init__(*args, **kwargs)
        self.stride, self.longest_answer = doc_stride, max_answer_len
        if not getattr(self.tokenizer, "is_fast", False):
            raise Error("question answering needs the places of tokens in the text", "pipeline", type(self.tokenizer).__name__, "a fast tokenizer")

    def __call__(self, inputs=None, question=None, context=None):
        many = isinstance(inputs, list)
        asked = inputs if many else [inputs if inputs is not None else {"question": question, "context": context}]
        answers = [self._answer(item["question"], item["context"]) for item in asked]
        return answers if many else answers[0]

    def _answer(self, question, context):
        encoded = self.tokenizer(question, context, padding="max_length", truncation="only_second", max_length=self.max_length,
                                 stride=self.stride, return_overflowing_tokens=True, return_offsets_mapping=True, return_tensors="np")
        batch = tensors_of(self._accepted(encoded), "pipeline")
        best = {"score": -1.0, "start": 0, "end": 0, "answer": ""}
        for first in range(0, rows_of(batch), self.batch_size):
            outputs = self._run({name: value[first:first + self.batch_size] for name, value in batch.items()})
            for row in range(rows_of(outputs)):
                best = max(best, self._span(encoded, first + row, outputs["start_logits"][row].float().numpy(),
                                            outputs["end_logits"][row].float().numpy(), context), key=lambda answer: answer["score"])
        return best

    def _span(self, encoded, row, start, end, context):
        """The best span of a window: the product of the probabilities of its ends, among the tokens of the context."""
        outside = numpy.array([part != 1 for part in encoded.sequence_ids(row)])
        start, end = _softmax(numpy.where(outside, -1e4, start)), _softmax(numpy.where(outside, -1e4, end))
        scores = numpy.triu(numpy.outer(start, end))
        scores = numpy.tril(scores, self.longest_answer - 1)
        first, last = numpy.unravel_index(scores.argmax(), scores.shape)
        offsets = encoded["offset_mapping"][row]
        begin, finish = int(offsets[first][0]), int(offsets[last][1])
        return {"score": float(scores[first, last]), "start": begin, "end": finish, "answer": context[begin:finish]}


class FeatureExtraction(Pipeline):
    """The last hidden states of each text: an array [tokens, hidden], without those of the padding."""

    def _results(self, rows):
        return [outputs["last_hidden_state"][:int(row["attention_mask"].sum())] for _, row, outputs in rows]


class SentenceEmbedding(Pipeline):
    """The embedding of each text: the mean over its tokens, of length 1."""

    wrapper = _Embeddings

    def _results(self, rows):
        return [outputs["embeddings"] for _, _, outputs in rows]

    def __call__(self, inputs):
        found = super().__call__(inputs)
        return numpy.stack(found) if isinstance(inputs, list) else found


PIPELINES = {"text-classification": TextClassification, "sentiment-analysis": TextClassification, "token-classification": TokenClassification,
             "ner": TokenClassification, "fill-mask": FillMask, "question-answering": QuestionAnswering,
             "feature-extraction": FeatureExtraction, "sentence-embedding": SentenceEmbedding, "image-classification": ImageClassification,
             "audio-classification": AudioClassification}


def pipeline(task, model=None, tokenizer=None, feature_extractor=None, image_processor=None, **settings):
    """The pipeline of a task. `model` and `tokenizer` are objects of transformers, or a local folder that save_pretrained wrote.

    Settings: max_length (128 tokens; of sounds, 16000 samples), batch_size (8), layout, precision, threads."""
    if task not in PIPELINES:
        close = difflib.get_close_matches(str(task), PIPELINES, 1)
        raise Error("the task is unknown", "pipeline", repr(task), ", ".join(PIPELINES), f"Did you mean {close[0]}?" if close else "")
    kind, folder = PIPELINES[task], model if isinstance(model, (str, os.PathLike)) else None
    if folder is not None:
        if not os.path.isdir(folder):
            raise Error("the model is no local folder", "pipeline", str(folder), "a folder that save_pretrained wrote",
                        "Download the model first; nothing is fetched here")
        model = getattr(transformers, kind.auto_class).from_pretrained(folder, local_files_only=True)
    processor = image_processor if image_processor is not None else feature_extractor
    if kind is ImageClassification and folder is not None and processor is None:
        processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True)
    elif kind is AudioClassification and folder is not None and processor is None:
        processor = transformers.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
    elif folder is not None and tokenizer is None and kind not in (ImageClassification, AudioClassification):
        tokenizer = folder
    if isinstance(tokenizer, (str, os.PathLike)):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
    return kind(model, tokenizer=tokenizer, processor=processor, **settings)
