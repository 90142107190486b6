"""Which embedder a configuration means: bundled, in a file or module, of a provider, or none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from stateroom.errors import Misconfigured
from stateroom.search.embedding import Embedder, make_embedder
from stateroom.search.index_config import parse_index_config

FILE = """
from langchain_core.embeddings import Embeddings

def function(texts):
    return [[float(len(text)), 0.0, 0.0, 0.0] for text in texts]

class Kind(Embeddings):
    dims = 4
    def embed_documents(self, texts):
        return function(texts)
    def embed_query(self, text):
        return [-number for number in function([text])[0]]

instance = Kind()
number = 3
"""


def make(embed: object, dims: int = 4) -> Embedder:
    embedder = make_embedder(parse_index_config({"embed": embed, "dims": dims}))
    assert embedder is not None
    return embedder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an embedder in a file, importable too."""
    (tmp_path / "my_embedders.py").write_text(FILE)
    (tmp_path / "broken_embedders.py").write_text("raise RuntimeError('no key')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_embedders", raising=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("place", ["./my_embedders.py", "my_embedders.py", "my_embedders"])
def test_an_embedder_is_found_in_a_file_or_a_module(place: str) -> None:
    assert make(f"{place}:function").embed_documents(["abc"])[0].tolist() == [3.0, 0.0, 0.0, 0.0]
    assert make(f"{place}:instance").embed_query("abc").tolist() == [-3.0, 0.0, 0.0, 0.0]


def test_a_file_may_be_named_by_its_whole_path(folder: Path) -> None:
    assert make(f"{folder / 'my_embedders.py'}:function").embed_query("ab").tolist()[0] == 2.0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("embed", "message"),
    [
        ("./my_embedders.py:missing", r"my_embedders\.py has no attribute 'missing'"),
        ("./absent.py:function", r"there is no file .*absent\.py"),
        ("./broken_embedders.py:function", r"broken_embedders\.py failed to load: RuntimeError: no key"),
        ("broken_embedders:function", "module broken_embedders failed to load: RuntimeError: no key"),
        ("my_embedders:missing", "the module my_embedders has no such attribute either"),
        ("./my_embedders.py", r"must be \"local\", \"provider:model\""),
        ("word", r"must be \"local\", \"provider:model\""),
        ("./my_embedders.py:Kind", "an object \\(not a class\\)"),
        ("./my_embedders.py:number", "must be a function from texts to vectors or an object"),
        ("nobody:model-1", "'nobody:model-1' could not be loaded by langchain"),
    ],
)
def test_an_embedder_that_cannot_be_loaded_is_refused_with_the_reason(embed: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message) as caught:
        make(embed)
    assert caught.value.field == "index.embed"


@pytest.mark.usefixtures("folder")
def test_dimensions_known_once_it_is_loaded_are_checked_at_start_up() -> None:
    with pytest.raises(Misconfigured, match=r"index\.dims is 8 but the embedder makes 4 numbers"):
        make("./my_embedders.py:instance", dims=8)


def test_a_provider_is_loaded_by_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    provided = DeterministicFakeEmbedding(size=4)

    def init_embeddings(name: str) -> Embeddings:
        asked.append(name)
        return provided

    monkeypatch.setattr("langchain.embeddings.init_embeddings", init_embeddings)
    assert make("json:model-1").embed_query("ab").tolist() == pytest.approx(provided.embed_query("ab"))
    assert asked == ["json:model-1"]


def test_a_provider_without_langchain_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
    with pytest.raises(Misconfigured, match=r'pip install "stateroom\[embeddings\]"'):
        make("openai:text-embedding-3-small")


def test_the_local_embedder_is_built_in() -> None:
    embedder = make_embedder(parse_index_config({"embed": "local"}))
    assert embedder is not None
    near, far = embedder.embed_documents(["a cat on a sofa", "interest rates of banks"])
    query = embedder.embed_query("kitten on the couch")
    assert near.shape == (256,)
    assert query @ near > query @ far


def test_without_an_embedder_there_is_none() -> None:
    assert make_embedder(parse_index_config(None)) is None
    assert make_embedder(parse_index_config({"fields": ["text"]})) is None


def test_an_object_with_half_the_methods_is_refused() -> None:
    class Half:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] * 4 for _ in texts]

    with pytest.raises(Misconfigured, match="embed_documents and embed_query"):
        make(Half())
