"""Text analysis: the one rule by which a text becomes the terms that full-text search compares."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Final

import Stemmer
from typing_extensions import override

from stateroom.errors import Misconfigured

__all__ = ["QUERY_TERMS_MAX", "TERM_LENGTH_MAX", "Analyzer"]

TERM_LENGTH_MAX: Final = 64
"""Characters of a term; a longer one is cut, so two that share their first 64 are one term."""

QUERY_TERMS_MAX: Final = 64
"""Distinct terms of a query that are searched; the rest of a longer query is left out."""

_RULES_VERSION: Final = 1
_UNSTEMMED: Final = "none"
_CACHED_WORDS_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class Analyzer:
    """Turns texts and queries of one language into terms, the same on every back end.

    A term is folded for case and accents, has 1 to ``TERM_LENGTH_MAX`` characters, and contains no
    whitespace and no NUL, so that terms may be joined with spaces and taken apart again. Identifiers
    (``foo_bar.baz``, ``fooBar``, ``user@example.org``, ``err-42``) give the whole and then each part.
    Chinese, Japanese and Korean give overlapping pairs of characters.

    ``language`` is the name of a Snowball stemmer, or ``"none"`` for neither stems nor stop words.
    Analyzers of the same language are equal and share one cache; all methods may be called from
    any thread. Raises ``Misconfigured`` (field ``index.language``) for an unknown language.
    """

    language: str = "english"
    _vocabulary: _Vocabulary = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_vocabulary", _vocabulary(self.language))

    @override
    def __reduce__(self) -> tuple[type[Analyzer], tuple[str]]:
        # The vocabulary holds a lock and a native stemmer, which cannot be pickled; the language can.
        return Analyzer, (self.language,)

    @property
    def signature(self) -> str:
        """A short text that changes whenever the same input could give other terms.

        A store keeps it beside its index, and indexes anew when it differs.
        """
        return self._vocabulary.signature

    def terms(self, text: str) -> list[str]:
        """Return the terms of a document's text, in order, with repeats."""
        words = _words(text)
        found = list(map(self._vocabulary.known.get, words))
        learn = self._vocabulary.learn
        if None in found:
            found = [
                learn(word) if terms is None else terms for word, terms in zip(words, found, strict=True)
            ]
        return list(chain.from_iterable(found))  # type: ignore[arg-type]  # none of them is None now

    def query_terms(self, text: str) -> list[str]:
        """Return the distinct terms of a query, in order, at most ``QUERY_TERMS_MAX``.

        Stop words are left out, unless nothing else is left.
        """
        vocabulary = self._vocabulary
        words = _words(text)
        telling = [word for word in words if _folded(word) not in vocabulary.stop_words]
        terms: dict[str, None] = {}
        for word in telling or words:
            terms.update(dict.fromkeys(vocabulary.learn(word)))
            if len(terms) >= QUERY_TERMS_MAX:
                break
        return list(terms)[:QUERY_TERMS_MAX]


class _Vocabulary:
    """The words of one language seen so far, with their terms."""

    def __init__(self, stem: Callable[[str], str], stop_words: str, signature: str) -> None:
        self.known: dict[str, tuple[str, ...]] = {}
        self.signature = signature
        self.stop_words = frozenset(map(_folded, stop_words.split()))
        self._stem = stem
        # A native stemmer keeps state while it works, so two threads must not be inside it at once.
        self._lock = threading.Lock()

    def learn(self, word: str) -> tuple[str, ...]:
        """Return the terms of a word, from the cache when it is there."""
        if word.isdigit() and word.isascii():
            # Numbers are rarely seen twice, and there is nothing to learn about them.
            return (word[:TERM_LENGTH_MAX],)
        terms = self.known.get(word)
        if terms is None:
            with self._lock:
                terms = tuple(self._terms(word))
            # Long words are rarely seen twice; keeping them would let one document fill the memory.
            if len(word) <= TERM_LENGTH_MAX:
                if len(self.known) >= _CACHED_WORDS_MAX:
                    self.known.clear()
                self.known[word] = terms
        return terms

    def _terms(self, word: str) -> list[str]:
        if word.isascii():
            # Most words have neither connectors nor capitals to look for.
            plain = word.isalnum() and word.islower()
            return [self._term(word)] if plain else self._identifier_terms(word)
        found: list[str] = []
        for piece in _CJK_RUN.split(word):
            if _CJK_RUN.fullmatch(piece):
                found += _pairs(piece)
            else:
                for part in _unicode_word().findall(piece):
                    found += self._identifier_terms(part)
        return found

    def _identifier_terms(self, word: str) -> list[str]:
        pieces = _CONNECTORS.split(word)
        parts = [folded for piece in pieces for part in _CAPITALS.split(piece) if (folded := _folded(part))]
        terms = [self._term(part) for part in parts]
        if len(parts) < 2:
            return terms
        # Who writes "fooBar" as "foobar" writes a plain word, so that whole is stemmed as one.
        whole = self._term(_folded(word)) if len(pieces) == 1 else _folded(word)[:TERM_LENGTH_MAX]
        return [whole, *terms]

    def _term(self, folded: str) -> str:
        kept = folded[:TERM_LENGTH_MAX]
        # Some stemmers leave nothing of a word that is all suffix.
        return self._stem(kept)[:TERM_LENGTH_MAX] or kept


@cache
def _vocabulary(language: str) -> _Vocabulary:
    if language == _UNSTEMMED:
        return _Vocabulary(str, "", f"{_RULES_VERSION}:{language}")
    if language not in Stemmer.algorithms():
        available = ", ".join([_UNSTEMMED, *Stemmer.algorithms()])
        raise Misconfigured(
            f"index.language is {language!r}, which is not a language that Stateroom can analyse. "
            f"Use one of: {available}.",
            field="index.language",
        )
    # The stemmer's own cache is off (0), since the vocabulary is one.
    stem = Stemmer.Stemmer(language, 0).stemWord
    signature = f"{_RULES_VERSION}:{language}:snowball-{Stemmer.version()}"
    return _Vocabulary(stem, _STOP_WORDS.get(language, ""), signature)


_ASCII_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:[._@-]+[A-Za-z0-9]+)*")
_CONNECTORS: Final = re.compile(r"[._@-]+")
# A capital begins a new part after a small letter, and before a capitalised word ("HTTPServer"), but
# not in the plural of an acronym ("GPUs").
_CAPITALS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_CJK_RUN: Final = re.compile(
    "([\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\u1100-\u11ff\uac00-\ud7ff\U00020000-\U0003ffff]+)"
)
# Only marks that are accents. The vowel signs of India, the voicing marks of Japan and the breve of
# the Cyrillic letters \u0439 and \u045e make letters of their own, to readers and to stemmers.
_ACCENTS: Final = re.compile(
    "[\u0300-\u0305\u0307-\u036f\u0591-\u05c7\u064b-\u0652\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
    "|(?<![\u0438\u0443])\u0306"
)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text)
    # Soft hyphens are invisible inside words; compatibility forms (full width, ligatures) are spelt out.
    return _unicode_word().findall(unicodedata.normalize("NFKC", text.replace("\u00ad", "")))


@cache
def _unicode_word() -> re.Pattern[str]:
    # "\w" leaves out combining marks, which would cut words apart in most scripts of India.
    marks = "".join(chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code))[0] == "M")
    letters = rf"[^\W_](?:[^\W_]|[{marks}])*"
    return re.compile(rf"{letters}(?:[._@-]+{letters})*")


def _folded(word: str) -> str:
    folded = word.casefold()
    if folded.isascii():
        return folded
    decomposed = unicodedata.normalize("NFKD", folded)
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", decomposed))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


# Languages that are not here keep every word of a query. The loose letters are what an apostrophe
# leaves behind ("what's", "l'eau").
_STOP_WORDS: Final = {
    "english": """
        a about above after again all also am an and any are aren as at be because been before being
        below between both but by can could couldn d did didn do does doesn doing down during each few
        for from further had hadn has hasn have haven having he her here hers herself him himself his
        how i if in into is isn it its itself just ll m me more most my myself no nor not now of off on
        once only or other our ours ourselves out over own re s same she should shouldn so some such t
        than that the their theirs them themselves then there these they this those through to too under
        until up ve very was wasn we were weren what when where which while who whom whose why will with
        would wouldn you your yours yourself yourselves""",
    "german": """
        aber als am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des
        dich die dies diese diesem diesen dieser dieses dir doch du durch ein eine einem einen einer
        eines er es euch euer für hat hatte hatten habe haben hier hinter ich ihm ihn ihnen ihr ihre
        ihrem ihren ihrer im in ist ja jede jeder jedes jetzt kann kein keine können man mein meine mich
        mir mit muss nach nicht noch nun nur ob oder ohne sein seine seinem seinen seiner sich sie sind
        so über um und uns unser unter vom von vor wann war waren warum was weil wenn wer werden wie
        wieder will wir wird wo zu zum zur zwischen""",
    "french": """
        a ai as au aux avait avec avez avons c ce ces cet cette comme d dans de des donc dont du elle
        elles en est et étaient était être eu eux fait fut il ils j je l la le les leur leurs lui m ma
        mais me même mes moi mon n ne nos notre nous on ont ou où par pas pour qu quand que quel quelle
        quelles quels qui quoi s sa sans se sera ses si son sont sur t ta te tes toi ton tu un une vos
        votre vous y""",
    "spanish": """
        a al algo como con cual cuando de del desde donde dos e el él ella ellas ellos en entre era eran
        es esa esas ese eso esos esta está están estas este esto estos fue fueron ha han hasta hay la
        las le les lo los más me mi mis mucho muy ni no nos nosotros nuestra nuestro o os otra otro para
        pero por porque que qué quien quién se ser si sí sin sobre son soy su sus también tan te tiene
        tu tú tus un una uno unos y ya yo""",
    "italian": """
        a ad agli ai al alla alle allo anche avere c che chi ci come con contro cui da dagli dai dal
        dalla dalle de degli dei del dell della delle dello di dove e è ed era erano gli ha hai hanno ho
        i il in io l la le lei li lo loro lui ma mi mia mie miei mio ne negli nei nel nella nelle no noi
        non nostra nostro o per perché più quale quando quella quelle quelli quello questa queste questi
        questo se sei si sia siamo sono su sua sue sui sul sulla suo suoi ti tra tu tua tuo un una uno
        vi voi""",
    "portuguese": """
        a à ao aos as às até com como da das de dela dele deles depois do dos e é ela elas ele eles em
        entre era eram essa essas esse esses esta está estão estas este estes eu foi foram há isso isto
        já lhe mais mas me mesmo meu meus minha muito na não nas nem no nos nós nossa nosso num numa o
        os ou para pela pelas pelo pelos por porque qual quando que quem são se sem ser seu seus só sua
        suas também te tem tu um uma você vocês""",
    "dutch": """
        aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een
        en er ge geen had heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kon maar me meer
        men met mij mijn moet na naar niet niets nog nu of om omdat ons ook op over te tegen toch toen
        tot u uit uw van veel voor waar waren was wat we wel werd wie wij wil worden zal ze zelf zich
        zij zijn zo zonder zou""",
    "swedish": """
        alla allt än att av bara blev bli de deg dem den denna deras dess det detta dig din du där efter
        ej eller en er ett från för ha hade han har henne hennes hon honom hur här i icke in inte jag ju
        kan kunde man med mellan men mig min mot mycket ni nu när och om oss på samma sedan sig sin ska
        skulle som så till under upp ut utan vad var vara varför vem vi vid vilken vill är åt över""",
    "danish": """
        ad af alle alt anden at blev blive da de dem den denne der deres det dette dig din dog du efter
        eller en end er et for fra ham han hans har havde hende hendes her hos hun hvad hvem hvis hvor
        hvordan i ikke ind jeg jer jo kan kunne man mange med meget men mig min mod ned noget nogle nu
        når og også om op os over på sig sin skal skulle som sådan thi til ud under var vi vil ville
        være været""",
    "norwegian": """
        alle at av bare begge ble bli da de deg dem den denne der dere deres det dette din du eller en
        enn er et etter for fra før ha hadde han hans har henne hennes her hun hva hvem hvis hvor
        hvordan hvorfor i ikke inn jeg kan kunne man mange med meg mellom men min mot må ned noe noen nå
        når og også om opp oss over på samme seg selv sin skal skulle slik som så til ut uten var ved vi
        vil ville være vært""",
    "russian": """
        а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для
        до его ее если есть еще же за здесь и из или им их к как какая какой когда кто ли меня мне может
        мой моя мы на над надо наш не него нее нет ни них но ну о об он она они оно от по под при про с
        сам свою себя со так также такой там те тебя тем то того тоже той только том ты у уже хотя чего
        чем что чтобы эта эти это этого этой этом этот я""",  # noqa: RUF001
}
