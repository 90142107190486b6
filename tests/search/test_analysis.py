"""Analysis gives one text the same terms everywhere: folded, stemmed, whole and in parts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import Misconfigured
from stateroom.search import analysis
from stateroom.search.analysis import QUERY_TERMS_MAX, TERM_LENGTH_MAX, Analyzer

ENGLISH = Analyzer()
PLAIN = Analyzer("none")
TEXTS = st.text() | st.text(alphabet="aB é.한_@-'字 ㅎが\u0301\u093f\u00ad\u2003\n\0")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running RUNS run", ["run", "run", "run"]),
        ("Café naïve Ångström", ["cafe", "naiv", "angstrom"]),
        ("cafe\u0301 ﬁne ＡＢＣ", ["cafe", "fine", "abc"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("one\ntwo\tthree\0four\u2003five", ["one", "two", "three", "four", "five"]),
        ("soft\u00adware", ["softwar"]),
        ("Caroline's don\u2019t", ["carolin", "s", "don", "t"]),
        ("", []),
        (" .,!? \u0301 ---", []),
    ],
)
def test_words_are_folded_stemmed_and_kept_in_order(text: str, terms: list[str]) -> None:
    assert ENGLISH.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("foo_bar.baz", ["foo_bar.baz", "foo", "bar", "baz"]),
        ("fooBar", ["foobar", "foo", "bar"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("GPUs", ["gpus"]),
        ("user@example.org", ["user@example.org", "user", "exampl", "org"]),
        ("err-42", ["err-42", "err", "42"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("naïve_Größe", ["naive_grosse", "naiv", "gross"]),
        ("get_userName", ["get_username", "get", "user", "name"]),
        ("__init__.", ["init"]),
        ("end. Start", ["end", "start"]),
    ],
)
def test_identifiers_give_the_whole_and_then_the_parts(text: str, terms: list[str]) -> None:
    assert ENGLISH.terms(text) == terms


def test_a_camel_case_name_is_found_by_its_plain_spelling() -> None:
    assert set(ENGLISH.query_terms("runningservices")) <= set(ENGLISH.terms("runningServices"))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京都", ["東京", "京都"]),
        ("猫", ["猫"]),
        ("カタカナー", ["カタ", "タカ", "カナ", "ナー"]),
        ("ｶﾞｽ", ["ガス"]),
        ("한국어 검색", ["한국", "국어", "검색"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", ["한국"]),
        ("Python3で書く", ["python3", "で書", "書く"]),
        ("東京・大阪", ["東京", "大阪"]),
    ],
)
def test_cjk_gives_overlapping_pairs_and_a_lone_character_alone(text: str, terms: list[str]) -> None:
    assert ENGLISH.terms(text) == terms


def test_marks_that_make_a_letter_are_kept_and_accents_are_not() -> None:
    assert PLAIN.terms("हिन्दी") == ["हिन्दी"]
    assert PLAIN.terms("йод ёлка") == ["йод", "елка"]
    assert PLAIN.terms("شَمْس") == PLAIN.terms("شمس")


def test_accented_and_unaccented_spellings_have_the_same_terms_in_every_language() -> None:
    for language in ("french", "german", "spanish", "portuguese"):
        found = Analyzer(language)
        assert found.terms("café Größe canción nação") == found.terms("cafe Grosse cancion nacao")


def test_each_language_has_its_own_stems_and_none_has_none() -> None:
    assert Analyzer("german").terms("Häuser") == Analyzer("german").terms("Haus")
    assert Analyzer("russian").terms("новый новая") == ["нов", "нов"]
    assert PLAIN.terms("running the engines") == ["running", "the", "engines"]


def test_stop_words_are_left_out_of_a_query_but_not_of_a_document() -> None:
    assert ENGLISH.query_terms("What is the name of Caroline's dog?") == ["name", "carolin", "dog"]
    assert "the" in ENGLISH.terms("the dog")
    assert Analyzer("french").query_terms("Où est l'école ?") == ["ecol"]
    assert PLAIN.query_terms("the dog") == ["the", "dog"]


def test_stop_words_are_kept_when_nothing_else_is_left() -> None:
    assert ENGLISH.query_terms("Who are you?") == ["who", "are", "you"]


def test_a_query_says_each_term_once_in_order() -> None:
    assert ENGLISH.query_terms("dogs cats dog CAT bird") == ["dog", "cat", "bird"]


def test_a_query_keeps_its_first_terms_up_to_the_limit() -> None:
    words = [f"word{number}" for number in range(QUERY_TERMS_MAX + 1)]
    assert PLAIN.query_terms(" ".join(words[:-1])) == words[:-1]
    assert PLAIN.query_terms(" ".join(words)) == words[:-1]
    # An identifier that would go past the limit is cut at it.
    assert len(PLAIN.query_terms(" ".join([*words[:-2], "tail_a.b"]))) == QUERY_TERMS_MAX


@pytest.mark.parametrize("extra", [0, 1])
def test_a_term_is_cut_at_the_length_limit(extra: int) -> None:
    assert PLAIN.terms("x" * (TERM_LENGTH_MAX + extra)) == ["x" * TERM_LENGTH_MAX]


def test_an_unknown_language_is_refused_with_the_languages_there_are() -> None:
    with pytest.raises(Misconfigured, match=r"index\.language is 'klingon'.*none.*english") as caught:
        Analyzer("klingon")
    assert caught.value.field == "index.language"


def test_analyzers_of_one_language_are_equal_and_survive_pickling() -> None:
    assert Analyzer("german") == Analyzer("german") != ENGLISH
    assert len({Analyzer(), Analyzer("english"), PLAIN}) == 2
    assert pickle.loads(pickle.dumps(ENGLISH)) == ENGLISH  # noqa: S301


def test_the_signature_differs_by_language() -> None:
    assert len({ENGLISH.signature, Analyzer("german").signature, PLAIN.signature}) == 3
    assert Analyzer("english").signature == ENGLISH.signature


def test_the_cache_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_CACHED_WORDS_MAX", 5)
    fresh = Analyzer("esperanto")
    words = [f"vorto{number}" for number in range(12)]
    first = fresh.terms(" ".join(words))
    assert len(fresh._vocabulary.known) <= 5
    assert fresh.terms(" ".join(words)) == first


def test_a_word_longer_than_a_term_is_not_cached() -> None:
    fresh = Analyzer("basque")
    fresh.terms("y" * (TERM_LENGTH_MAX + 1))
    assert fresh._vocabulary.known == {}


def test_threads_get_the_terms_that_one_thread_gets() -> None:
    texts = [" ".join(f"connections{n} nationalities{n}ing" for n in range(k, k + 50)) for k in range(40)]
    alone = [Analyzer("porter").terms(text) for text in texts]
    Analyzer("porter")._vocabulary.known.clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(Analyzer("porter").terms, texts)) == alone


@given(TEXTS, st.sampled_from(["english", "none", "french", "arabic", "russian"]))
def test_a_term_is_short_and_has_nothing_that_a_tokenizer_would_cut_at(text: str, language: str) -> None:
    for term in Analyzer(language).terms(text):
        assert 1 <= len(term) <= TERM_LENGTH_MAX
        assert "\0" not in term
        assert term.split() == [term]


@given(TEXTS, TEXTS)
def test_a_separator_keeps_texts_apart(left: str, right: str) -> None:
    assert ENGLISH.terms(f"{left}\n{right}") == ENGLISH.terms(left) + ENGLISH.terms(right)


@given(TEXTS)
def test_a_query_asks_only_for_terms_that_the_same_text_has(text: str) -> None:
    terms = ENGLISH.terms(text)
    query = ENGLISH.query_terms(text)
    assert set(query) <= set(terms)
    assert bool(query) == bool(terms)
    assert len(set(query)) == len(query) <= QUERY_TERMS_MAX


@given(st.text(alphabet="abcXYZ019._@- \n"))
def test_ascii_and_unicode_paths_agree(text: str) -> None:
    # The Greek word takes the whole text down the path for other scripts.
    assert ENGLISH.terms(f"{text} λόγος")[:-1] == ENGLISH.terms(text)
