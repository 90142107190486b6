"""Recall of the evidence turns of LoCoMo, which justifies the constants of text and hybrid search."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from stateroom.search import bm25
from stateroom.search.analysis import Analyzer
from stateroom.search.fusion import CANDIDATES, TEXT_WEIGHT, fuse
from stateroom.search.local import LocalEmbeddings

DEPTHS = (5, 10, 20)
TUNED_AT = 10
RRF_CONSTANT = 60
WEIGHTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SATURATIONS = ((0.9, 0.4), (1.2, 0.3), (1.2, 0.5), (1.2, 0.75), (1.5, 0.75), (2.0, 0.75))

Scores = dict[int, float]
Retriever = Callable[["Question"], Sequence[int]]


@dataclass
class Question:
    """A question, the places of the turns that answer it, and what each list says about the turns."""

    text: str
    evidence: set[int]
    vector: Scores = field(default_factory=dict)
    by_text: Scores = field(default_factory=dict)


@dataclass
class Conversation:
    """One scope of search: its turns as documents, and its questions."""

    name: str
    documents: list[str]
    questions: list[Question]
    counts: list[Counter[str]] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its tables, or with ``--json`` its figures."""
    options = _options(arguments)
    conversations = load(options.data)
    embed(conversations, options.vectors)
    score_text(conversations, Analyzer())
    report = {
        "questions": sum(len(one.questions) for one in conversations),
        "constants": {"K1": bm25.K1, "B": bm25.B, "TEXT_WEIGHT": TEXT_WEIGHT, "CANDIDATES": CANDIDATES},
        "vectors": options.vectors.stem if options.vectors else "local",
        "recall": recall_table(conversations),
        "conversations": per_conversation(conversations),
        "split by conversation": split_table(conversations),
        "text variants": variants(conversations),
    }
    if options.json:
        json.dump(report, sys.stdout, indent=1)
    else:
        show(report)
    return 0


def load(path: Path) -> list[Conversation]:
    """Read the data; questions without a known evidence turn are left out, since nothing can recall them."""
    conversations = []
    for raw in json.loads(path.read_text()):
        places = {turn["id"]: place for place, turn in enumerate(raw["turns"])}
        questions = [
            Question(question["question"], {places[turn] for turn in question["evidence"] if turn in places})
            for question in raw["questions"]
        ]
        documents = [f"{turn['speaker']}: {turn['text']}" for turn in raw["turns"]]
        answerable = [question for question in questions if question.evidence]
        conversations.append(Conversation(raw["conversation"], documents, answerable))
    return conversations


def embed(conversations: Sequence[Conversation], path: Path | None) -> None:
    """Give every question its similarity to every turn, by the local embedder or by stored vectors."""
    stored = np.load(path) if path else {}
    local = None if path else LocalEmbeddings()
    for one in conversations:
        if local is None:
            documents, questions = stored[f"documents-{one.name}"], stored[f"questions-{one.name}"]
        else:
            documents = local.embed_array(one.documents)
            questions = local.embed_array([question.text for question in one.questions])
        for question, row in zip(one.questions, (questions @ documents.T).tolist(), strict=True):
            question.vector = dict(enumerate(row))


def score_text(conversations: Iterable[Conversation], analyzer: Analyzer) -> None:
    """Give every question the BM25 scores of the turns of its conversation."""
    for one in conversations:
        one.counts = [Counter(analyzer.terms(text)) for text in one.documents]
        lengths = [counts.total() for counts in one.counts]
        statistics = bm25.Statistics(len(lengths), sum(lengths))
        for question in one.questions:
            terms = analyzer.query_terms(question.text)
            rows = [[counts[term] for term in terms] for counts in one.counts]
            scorer = bm25.Scorer(statistics, [sum(map(bool, column)) for column in zip(*rows, strict=True)])
            question.by_text = {
                place: scorer.score(row, lengths[place]) for place, row in enumerate(rows) if any(row)
            }


def text(question: Question) -> list[int]:
    """Rank by words alone."""
    return _best(question.by_text)


def vector(question: Question) -> list[int]:
    """Rank by vectors alone."""
    return _best(question.vector)


def hybrid(question: Question, text_weight: float = TEXT_WEIGHT) -> list[int]:
    """Rank as a store does: pools of the best of each list, every text candidate with its similarity."""
    words = {place: question.by_text[place] for place in text(question)}
    near = {place: question.vector[place] for place in {*vector(question), *words}}
    fused = fuse(words, near, text_weight=text_weight)
    return _best({place: one.score for place, one in fused.items()})


def reciprocal(question: Question) -> list[int]:
    """Rank by reciprocal rank fusion with equal weights, the usual default elsewhere."""
    scores: Counter[int] = Counter()
    for ranking in (text(question), vector(question)):
        for rank, place in enumerate(ranking, 1):
            scores[place] += 1 / (RRF_CONSTANT + rank)  # type: ignore[assignment]
    return _best(scores)


def recall(conversations: Iterable[Conversation], retriever: Retriever, depth: int) -> float:
    """Return the mean over the questions of the share of their evidence in the first ``depth``."""
    shares = [
        len(question.evidence.intersection(retriever(question)[:depth])) / len(question.evidence)
        for one in conversations
        for question in one.questions
    ]
    return sum(shares) / len(shares)


def recall_table(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    """Compare the retrievers at every depth."""
    retrievers = {"text": text, "vector": vector, "hybrid": hybrid, "equal-weight RRF": reciprocal}
    return [
        {"retriever": name} | {f"R@{depth}": recall(conversations, one, depth) for depth in DEPTHS}
        for name, one in retrievers.items()
    ]


def per_conversation(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    """Compare text and hybrid in every conversation."""
    return [
        {
            "conversation": one.name,
            "text": recall([one], text, TUNED_AT),
            "hybrid": recall([one], hybrid, TUNED_AT),
        }
        for one in conversations
    ]


def split_table(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    """Show what each text weight gives on either half, so that one may tune on one and test on the other."""
    halves = {"even": conversations[::2], "odd": conversations[1::2]}
    rows: list[dict[str, Any]] = [
        {"ranking": "text"} | {name: recall(half, text, TUNED_AT) for name, half in halves.items()}
    ]
    for weight in WEIGHTS:
        row: dict[str, Any] = {"ranking": f"hybrid, {weight} text"}
        for name, half in halves.items():
            row[name] = recall(half, lambda question, weight=weight: hybrid(question, weight), TUNED_AT)  # type: ignore[misc]
        rows.append(row)
    return rows


def variants(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    """Show text search with other constants on either half, and without stems and stop words."""
    halves = {"even": conversations[::2], "odd": conversations[1::2]}
    rows = []
    settings = [("english", *pair) for pair in SATURATIONS]
    # The Porter stemmer has no stop words here, so it shows what leaving them out is worth.
    settings += [(language, bm25.K1, bm25.B) for language in ("porter", "none")]
    for language, k1, b in settings:
        with patch.multiple(bm25, K1=k1, B=b):
            score_text(conversations, Analyzer(language))
        figures = {name: recall(half, text, TUNED_AT) for name, half in halves.items()}
        rows.append({"analysis": language, "K1": k1, "B": b, **figures})
    return rows


def show(report: dict[str, Any]) -> None:
    """Print the report as tables; with plain columns when rich is not installed."""
    print(f"{report['questions']} questions, vectors: {report['vectors']}, {report['constants']}")
    for title, rows in report.items():
        if isinstance(rows, list):
            cells = [
                [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values()]
                for row in rows
            ]
            _print_table(title, list(rows[0]), cells)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="locomo10-retrieval.json")
    parser.add_argument("--json", action="store_true", help="print figures instead of tables")
    parser.add_argument(
        "--vectors",
        type=Path,
        help="an .npz of another model's unit vectors: documents-NAME and questions-NAME per conversation, "
        "in the order of the data, without the questions that have no known evidence",
    )
    return parser.parse_args(arguments)


def _best(scores: dict[int, float] | Counter[int]) -> list[int]:
    return sorted(scores, key=lambda place: (-scores[place], place))[:CANDIDATES]


def _print_table(title: str, header: list[str], cells: list[list[str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(f"\n{title}")
        for line in [header, *cells]:
            print("  ".join(f"{cell:<18}" for cell in line))
        return
    table = Table(*header, title=title)
    for line in cells:
        table.add_row(*line)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
