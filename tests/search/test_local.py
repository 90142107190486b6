"""The local embedder gives unit vectors of meaning with no network, and says how to install it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from stateroom.errors import Misconfigured
from stateroom.search.local import DIMS, TEXT_LENGTH_MAX, LocalEmbeddings

LOCAL = LocalEmbeddings()


def test_vectors_are_float32_of_length_one() -> None:
    vectors = LOCAL.embed_array(["a dog barks", "the cat sleeps", "日本語", "\0"])
    assert vectors.shape == (4, DIMS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_documents_and_queries_are_lists_in_the_shape_of_langchain() -> None:
    documents = LOCAL.embed_documents(["a dog", "a cat"])
    assert [len(vector) for vector in documents] == [LOCAL.dims, LOCAL.dims]
    assert LOCAL.embed_query("a dog") == documents[0]
    assert all(type(number) is float for number in documents[0])


def test_near_meanings_are_nearer_than_far_ones() -> None:
    dog, puppy, tax = LOCAL.embed_array(["my dog is ill", "the puppy feels sick", "quarterly tax return"])
    assert dog @ puppy > dog @ tax + 0.1


def test_an_empty_text_has_a_vector_with_a_direction() -> None:
    vectors = LOCAL.embed_array(["", " "])
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_no_texts_give_no_vectors() -> None:
    assert LOCAL.embed_array([]).shape == (0, DIMS)
    assert LOCAL.embed_documents([]) == []


def test_many_texts_get_the_vectors_that_each_gets_alone() -> None:
    texts = [f"turn {number} of a long conversation" for number in range(600)]
    vectors = LOCAL.embed_array(texts)
    for row in (0, 255, 256, 599):
        assert vectors[row] == pytest.approx(LOCAL.embed_array([texts[row]])[0])


def test_a_text_is_embedded_up_to_the_length_limit() -> None:
    within = "word " * (TEXT_LENGTH_MAX // 5)
    assert (LOCAL.embed_array([within + "zebra zebra"]) == LOCAL.embed_array([within])).all()
    assert (LOCAL.embed_array([within[:-12] + "zebra zebra "]) != LOCAL.embed_array([within])).any()


def test_loading_needs_no_network_and_leaves_the_loader_alone() -> None:
    code = (
        "import socket, sys, logging\n"
        "socket.socket.connect = lambda *_: (_ for _ in ()).throw(AssertionError('network'))\n"
        "from stateroom.search.local import LocalEmbeddings\n"
        "embedder = LocalEmbeddings()\n"
        "assert 'tokenizers' not in sys.modules\n"
        "assert len(embedder.embed_query('hello')) == 256\n"
        "assert 'wordllama' not in sys.modules and not logging.root.handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("present", [False, True])
def test_without_the_weights_the_error_says_what_to_install(
    present: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = ModuleSpec("wordllama", None, is_package=True) if present else None
    if spec is not None:
        spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    with pytest.raises(Misconfigured, match=r'pip install "stateroom\[local\]"') as caught:
        LocalEmbeddings()
    assert caught.value.field == "index.embed"
