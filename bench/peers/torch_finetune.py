"""Fine-tunes a published folder on a GLUE task with PyTorch and transformers, and prints one JSON object: metrics on
dev (percent) and samples per second at the median step.

    python bench/peers/torch_finetune.py --task mrpc --data GLUE/MRPC --model models/all-MiniLM-L6-v2 --seed 0

The recipe is Ramet's, word for word: every row padded to --sequence, AdamW on matrices with decay and on the rest
without, gradients clipped to a norm of 1, a line up and a line down for the learning rate, epochs in a new order each.
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import time

import torch

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer  # noqa: E402

from torch_tools import attention_path, memory  # noqa: E402

# name: (file to train on, text, pair, label, labels)
TASKS = {
    "mrpc": ("train.tsv", "#1 String", "#2 String", "Quality", ["0", "1"]),
    "sst2": ("train.tsv", "sentence", None, "label", ["0", "1"]),
    "cola": ("train.tsv", 3, None, 1, ["0", "1"]),
    "rte": ("train.tsv", "sentence1", "sentence2", "label", ["entailment", "not_entailment"]),
    "stsb": ("train.tsv", "sentence1", "sentence2", "score", None),
}


def read_rows(path, limit):
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file]
    return rows[: limit + 1] if limit else rows


def read_examples(task, path, limit):
    _, text, pair, label, labels = TASKS[task]
    rows = read_rows(path, limit)
    if isinstance(text, int):
        column = lambda row, name: row[name]  # noqa: E731
        rows = rows[:limit] if limit else rows
    else:
        places = {name: i for i, name in enumerate(rows[0])}
        column, rows = (lambda row, name: row[places[name]]), rows[1:]
    answer = (lambda value: labels.index(value)) if labels else float
    return [(column(row, text), column(row, pair) if pair else None, answer(column(row, label))) for row in rows]


def squad_features(tokenizer, path, args, training):
    """Windows of the contexts, as Devlin et al.'s run_squad cuts them; of each its question and where its tokens lie."""
    features = []
    articles = json.loads(pathlib.Path(path).read_text())["data"]
    questions = [(qa, paragraph["context"]) for article in articles for paragraph in article["paragraphs"]
                 for qa in paragraph["qas"]]
    for qa, context in questions[: args.limit_train if training else args.limit_dev] if (
            args.limit_train if training else args.limit_dev) else questions:
        question = tokenizer(qa["question"], add_special_tokens=False, truncation=True, max_length=64)["input_ids"]
        encoded = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        room = args.sequence - len(question) - 3
        start = end = None
        if training:
            answer = qa["answers"][0]
            first, last = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            start = next((i for i, (a, b) in enumerate(offsets) if a <= first < b), None)
            end = next((i for i, (a, b) in enumerate(offsets) if a < last <= b), None)
            if start is None or end is None:
                continue
        at = 0
        while True:
            window = ids[at : at + room]
            row = [tokenizer.cls_token_id, *question, tokenizer.sep_token_id, *window, tokenizer.sep_token_id]
            shift = len(question) + 2 - at
            inside = training and at <= start and end < at + len(window)
            best = [min(i - at, at + len(window) - 1 - i) + 0.01 * len(window) for i in range(at, at + len(window))]
            features.append({"ids": row, "types": [0] * (len(question) + 2) + [1] * (len(window) + 1), "id": qa["id"],
                             "start": start + shift if inside else 0, "end": end + shift if inside else 0,
                             "offsets": {i + shift: offsets[i] for i in range(at, at + len(window))},
                             "room": {i + shift: best[i - at] for i in range(at, at + len(window))}, "context": context,
                             "place": at, "count": len(ids)})
            if at + room >= len(ids):
                break
            at += min(len(window), args.stride)
    return features


def squad_answers(features, starts, ends, n_best=20, longest=30):
    """The best span of any window, where a token counts only in the window that shows most around it, the first of equals."""
    windows = {}
    for i, feature in enumerate(features):
        windows.setdefault(feature["id"], []).append(i)
    answers = {}
    for question, members in windows.items():
        own = {}  # of a token: what its window shows, and which that is
        for i in members:
            for token, room in features[i]["room"].items():
                key = features[i]["offsets"][token]
                if key not in own or room > own[key][0]:
                    own[key] = room, i
        best = (-math.inf, "")
        for i in members:
            feature = features[i]
            top = lambda values: sorted(range(len(feature["ids"])), key=lambda t: -values[i][t])[:n_best]  # noqa: E731
            for start in top(starts):
                if start not in feature["offsets"] or own[feature["offsets"][start]][1] != i:
                    continue
                for end in top(ends):
                    if end not in feature["offsets"] or end < start or end - start + 1 > longest:
                        continue
                    score = starts[i][start] + ends[i][end]
                    if score > best[0]:
                        best = (score, feature["context"][feature["offsets"][start][0] : feature["offsets"][end][1]])
        answers[question] = best[1]
    return answers


def ranks(values):
    order, result, i = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            result[order[k]] = (i + j) / 2
        i = j + 1
    return result


def correlation(a, b):
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    both = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    spread = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return both / spread if spread else 0.0


def metrics(task, answers, truth):
    if task == "stsb":
        return {"pearson": 100 * correlation(answers, truth), "spearman": 100 * correlation(ranks(answers), ranks(truth))}
    tp = sum(a == 1 and t == 1 for a, t in zip(answers, truth))
    fp, fn = sum(answers) - tp, sum(truth) - tp
    tn = len(truth) - tp - fp - fn
    numbers = {"accuracy": 100 * (tp + tn) / len(truth)}
    if task == "mrpc":
        numbers["f1"] = 100 * 2 * tp / max(1, 2 * tp + fp + fn)
    if task == "cola":
        below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        numbers = {"matthews": 100 * (tp * tn - fp * fn) / below if below else 0.0, **numbers}
    return numbers


def encode(tokenizer, examples, sequence):
    """All rows, padded to one length."""
    rows = tokenizer([e[0] for e in examples], [e[1] for e in examples] if examples[0][1] is not None else None,
                     truncation="longest_first", padding="max_length", max_length=sequence, return_tensors="pt",
                     return_token_type_ids=True)
    labels = torch.tensor([e[2] for e in examples])
    return {name: rows[name] for name in ("input_ids", "token_type_ids", "attention_mask")} | {"labels": labels}


def encode_squad(tokenizer, features, sequence):
    count = len(features)
    data = {name: torch.zeros(count, sequence, dtype=torch.long) for name in ("input_ids", "token_type_ids", "attention_mask")}
    data["input_ids"].fill_(tokenizer.pad_token_id)
    for i, feature in enumerate(features):
        length = len(feature["ids"])
        data["input_ids"][i, :length] = torch.tensor(feature["ids"])
        data["token_type_ids"][i, :length] = torch.tensor(feature["types"])
        data["attention_mask"][i, :length] = 1
    data["start_positions"] = torch.tensor([f["start"] for f in features])
    data["end_positions"] = torch.tensor([f["end"] for f in features])
    return data


def groups(model, decay):
    """Matrices decay, biases and norms do not."""
    with_decay = [p for p in model.parameters() if p.dim() > 1]
    without = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]


def train(model, data, args):
    optimizer = torch.optim.AdamW(groups(model, args.weight_decay), lr=args.rate, betas=(0.9, 0.999), eps=1e-6, fused=True)
    count = len(data["input_ids"])
    steps = max(1, math.ceil(args.epochs * count / args.batch - 1e-9))
    warmup = int(args.warmup * steps)
    generator = torch.Generator().manual_seed(args.seed)
    stream, seconds = [], []
    for step in range(steps):
        begin = time.perf_counter()
        while len(stream) < args.batch:
            stream += range(count) if args.in_order else torch.randperm(count, generator=generator).tolist()
        chosen, stream = stream[: args.batch], stream[args.batch :]
        batch = {name: tensor[chosen] for name, tensor in data.items()}
        rate = args.rate * ((step + 1) / (warmup + 1) if step < warmup else (steps - step) / max(1, steps - warmup))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        float(loss)
        seconds.append(time.perf_counter() - begin)
        if args.stop and step + 1 == args.stop:
            break
    return seconds


@torch.inference_mode()
def answers_of(model, data, args):
    parts = []
    for at in range(0, len(data["input_ids"]), 64):
        batch = {name: data[name][at : at + 64] for name in ("input_ids", "token_type_ids", "attention_mask")}
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            result = model(**batch)
        parts.append([result.logits.float()] if hasattr(result, "logits") else
                     [result.start_logits.float(), result.end_logits.float()])
    return [torch.cat(piece) for piece in zip(*parts)]


def pretrained(args):
    """The folder's weights, with the head that it holds or a new one."""
    if args.task == "squad":
        kind, changes = AutoModelForQuestionAnswering, {}
    else:
        kind, labels = AutoModelForSequenceClassification, TASKS[args.task][4]
        changes = {"num_labels": len(labels)} if labels else {"num_labels": 1, "problem_type": "regression"}
    if args.dropout is not None:
        changes |= {"hidden_dropout_prob": args.dropout, "attention_probs_dropout_prob": args.dropout}
    return kind.from_pretrained(args.model, config=AutoConfig.from_pretrained(args.model, **changes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=[*TASKS, "squad"], default="mrpc")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the task's files")
    parser.add_argument("--train", type=pathlib.Path, help="squad: file to train on")
    parser.add_argument("--dev", type=pathlib.Path, help="squad: file to answer")
    parser.add_argument("--out", type=pathlib.Path, help="squad: where the answers go")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit-train", type=int, default=0)
    parser.add_argument("--limit-dev", type=int, default=0)
    parser.add_argument("--stop", type=int, default=0, help="end after so many steps, without metrics: for the rate alone")
    parser.add_argument("--in-order", action="store_true", help="rows as the file has them, epoch after epoch")
    parser.add_argument("--dropout", type=float, help="default: the model's")
    parser.add_argument("--write-start", type=pathlib.Path, help="write the weights with the head that training would begin with, and end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    numbers = {}
    model = pretrained(args)
    if args.write_start:
        model.save_pretrained(args.write_start)
        return tokenizer.save_pretrained(args.write_start)
    if args.task == "squad":
        data = encode_squad(tokenizer, squad_features(tokenizer, args.train, args, True), args.sequence)
    else:
        data = encode(tokenizer, read_examples(args.task, args.data / TASKS[args.task][0], args.limit_train), args.sequence)
    model.train()
    seconds = train(model, data, args)
    used = {}
    if args.stop:  # in training: without dropout another kernel would compute attention
        batch = {name: tensor[: args.batch] for name, tensor in data.items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            used = {**memory(), "attention": attention_path(lambda: model(**batch))}
    model.eval()
    if args.stop:
        pass
    elif args.task == "squad":
        features = squad_features(tokenizer, args.dev, args, False)
        starts, ends = answers_of(model, encode_squad(tokenizer, features, args.sequence), args)
        args.out.write_text(json.dumps(squad_answers(features, starts.tolist(), ends.tolist())))
    else:
        dev = read_examples(args.task, args.data / "dev.tsv", args.limit_dev)
        (logits,) = answers_of(model, encode(tokenizer, dev, args.sequence), args)
        found = logits[:, 0].tolist() if args.task == "stsb" else logits.argmax(1).tolist()
        numbers = metrics(args.task, found, [e[2] for e in dev])
    middle = statistics.median(seconds[1:] or seconds)
    print(json.dumps({"metrics": numbers, "samples_per_second": args.batch / middle, "steps": len(seconds), **used}))


if __name__ == "__main__":
    main()
