"""Addresses of Postgres in every spelling reach the server, and no message holds a password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from stateroom.drivers.postgres.conninfo import parse_uri
from stateroom.errors import Misconfigured, StateroomError, Unavailable
from stateroom.stores.postgres import PostgresStore
from tests.postgres.server import FAST, Server

PASSWORD = "p@s#w%rd/ü:^"
RAW = f"ann:{PASSWORD}"
ENCODED = f"ann:{quote(PASSWORD, safe='')}"
QUOTED = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
N = ("notes",)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(FAST, tcp=True) as server:
        server.add_user("ann", PASSWORD)
        with PostgresStore(server.add_user("bob", "plain")) as store:
            store.put(N, "k", {})
        server.execute("grant usage on schema stateroom to ann")
        server.execute("grant all on all tables in schema stateroom to ann")
        server.execute("grant all on all sequences in schema stateroom to ann")
        yield server


SPELLINGS = [
    f"postgresql://{ENCODED}@{{host}}/postgres",
    f"postgresql://{RAW}@{{host}}/postgres",
    f"postgres://{ENCODED}@{{host}}/postgres",
    f"POSTGRES://{RAW}@{{host}}/postgres",
    f"postgresql+psycopg://{RAW}@{{host}}/postgres",
    f"postgresql+asyncpg://{ENCODED}@{{host}}/postgres?ssl=prefer",
    f"  postgresql://{RAW}@{{host}}/postgres\n",
    f"postgresql://{RAW}@{{host}}/postgres?sslmode=prefer&channel_binding=prefer",
    f"postgresql://{RAW}@{{host}}/postgres?ssl=false",
    f"postgresql://{RAW}@{{host}}/postgres?sslmode=disable&ssl=true",
    f"postgresql://{RAW}@{{host}}/postgres?pgbouncer=true&connection_limit=1&schema=public&pool_timeout=0",
    f"postgresql://{RAW}@{{host}}/postgres?application_name=me@here&statement_cache_size=0&supa=x",
    f"postgresql:///postgres?host=127.0.0.1&port={{port}}&user=ann&password={quote(PASSWORD, safe='')}",
    f"postgresql://{RAW}@/postgres?host={{socket}}&port={{port}}",
    f"postgresql://{RAW}@127.0.0.1:1,{{host}}/postgres",
    f"postgresql://{ENCODED}@{{host}},127.0.0.1:1/postgres?target_session_attrs=read-write",
    f"host=127.0.0.1 port={{port}} user=ann dbname=postgres password='{QUOTED}'",
    f"host={{socket}} port={{port}} user=ann dbname=postgres password='{QUOTED}' sslmode=prefer",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_A42_a_store_opens_however_its_address_is_spelt(server: Server, spelling: str) -> None:
    uri = spelling
    for name, value in {
        "{host}": f"127.0.0.1:{server.port}",
        "{port}": str(server.port),
        "{socket}": quote(str(server.folder), safe="" if "://" in spelling else "/"),
    }.items():
        uri = uri.replace(name, value)
    with closing(PostgresStore(uri)) as store:
        assert store.get(N, "k") is not None


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("ann:a%20b", "a b"),
        ("ann:a b", "a b"),
        ("ann:100%", "100%"),
        ("ann:50%zz%20", "50%zz%20"),
        ("ann:a?b=c", "a?b=c"),
        ("ann:a?b@c?d", "a?b@c?d"),
        ("ann:a/b#c:d", "a/b#c:d"),
        ("ann:a+b", "a+b"),
        ("ann:", None),
        ("ann", None),
    ],
)
def test_A42_a_password_may_hold_characters_that_were_not_encoded(user: str, expected: str | None) -> None:
    given = conninfo_to_dict(parse_uri(f"postgresql://{user}@host:1/db?sslmode=require").conninfo)
    assert (given["user"], given.get("password")) == ("ann", expected)
    assert (given["host"], given["port"], given["dbname"]) == ("host", "1", "db")
    assert given["sslmode"] == "require"


@pytest.mark.parametrize(
    ("query", "sslmode"),
    [
        ("ssl=true", "require"),
        ("ssl=1", "require"),
        ("ssl=verify-full", "verify-full"),
        ("sslmode=no-verify", "require"),
        ("sslmode=verify-full&ssl=true", "verify-full"),
        ("ssl=true&sslmode=verify-full", "verify-full"),
        ("sslmode=verify-ca&sslrootcert=/ca.pem", "verify-ca"),
        ("ssl=false", "disable"),
    ],
)
def test_A42_no_spelling_weakens_the_tls_that_was_asked_for(query: str, sslmode: str) -> None:
    assert conninfo_to_dict(parse_uri(f"postgresql://host/db?{query}").conninfo)["sslmode"] == sslmode


def test_A42_hosts_may_be_several_or_have_addresses_of_six_parts() -> None:
    given = conninfo_to_dict(parse_uri("postgresql://ann:p@w@[::1]:5,h2:6/db").conninfo)
    assert (given["host"], given["port"], given["password"]) == ("::1,h2", "5,6", "p@w")


@pytest.mark.parametrize(
    ("uri", "pooled"),
    [
        ("postgresql://h/db?pgbouncer=true", True),
        ("postgresql://h/db?pgbouncer=false", False),
        ("postgresql://h/db", False),
    ],
)
def test_a_url_may_say_that_a_pooler_stands_before_the_database(uri: str, pooled: bool) -> None:
    assert parse_uri(uri).pooled is pooled


def test_what_is_not_given_is_libpqs_or_such_that_a_dead_connection_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = conninfo_to_dict(parse_uri("postgresql://h/db?connect_timeout=3").conninfo)
    assert (given["connect_timeout"], given["tcp_user_timeout"]) == ("3", "30000")
    assert "password" not in given
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert "connect_timeout" not in conninfo_to_dict(parse_uri("postgresql://h/db").conninfo)
    assert conninfo_to_dict(parse_uri("service=mine").conninfo) == {
        "service": "mine",
        "client_encoding": "UTF8",
    }


def test_the_environment_gives_what_the_address_leaves_out(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with closing(PostgresStore(f"postgresql://ann@127.0.0.1:{server.port}/postgres")) as store:
        assert store.get(N, "k") is not None
    services = tmp_path / "services"
    services.write_text(f"[mine]\nhost=127.0.0.1\nport={server.port}\nuser=ann\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with closing(PostgresStore("service=mine")) as store:
        assert store.get(N, "k") is not None
    monkeypatch.setenv("PGSERVICE", "mine")
    with closing(PostgresStore("postgresql://")) as store:
        assert store.get(N, "k") is not None


def test_text_is_unicode_whatever_the_environment_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with closing(PostgresStore(server.uri)) as store:
        store.put(("日本",), "鍵", {"名": "値"})
        assert store.list_namespaces(prefix=("日本",)) == [("日本",)]
        assert store.search(("日本",))[0].key == "鍵"


SECRET = "s3cret/pass:w"

REFUSED = {
    "wrong password": (f"postgresql://ann:{SECRET}@{{host}}/postgres", Misconfigured),
    "unknown user": (f"postgresql://eve:{SECRET}@{{host}}/postgres", Misconfigured),
    "no password": ("postgresql://ann@{host}/postgres", Misconfigured),
    "unknown database": (f"postgresql://{ENCODED}@{{host}}/nowhere", Misconfigured),
    "no encryption": (f"postgresql://{ENCODED}@{{host}}/postgres?sslmode=require", Misconfigured),
    "nobody there": (f"postgresql://ann:{SECRET}@127.0.0.1:1/postgres", Unavailable),
    "no such socket": (f"postgresql://ann:{SECRET}@/postgres?host=/nowhere", Unavailable),
}


@pytest.mark.parametrize("case", REFUSED)
def test_A42_a_failed_login_says_why_without_the_password(server: Server, case: str) -> None:
    spelling, expected = REFUSED[case]
    with pytest.raises(StateroomError) as raised:
        PostgresStore(spelling.replace("{host}", f"127.0.0.1:{server.port}")).setup()
    assert type(raised.value) is expected
    assert raised.value.field == ("uri" if expected is Misconfigured else None)
    assert raised.value.retryable is (expected is Unavailable)
    assert_silent(raised.value, SECRET)
    assert_silent(raised.value, PASSWORD)


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://ann:{SECRET}@host:port:1/db x",
        f"postgresql://ann:{SECRET}@[::1/db",
        f"postgresql://ann:{SECRET}@host/db?nonsense=1",
        f"mysql://ann:{SECRET}@host/db",
        f"jdbc:postgresql://host/db?password={SECRET}",
        f"host=h password='{SECRET}",
        f"host=h passwort={SECRET}",
        f"ann:{SECRET}@host/db",
        f"ann:{SECRET}://@host/db",
        "",
    ],
)
def test_A42_an_address_that_cannot_be_read_is_refused_without_the_password(uri: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        parse_uri(uri)
    assert raised.value.field == "uri"
    assert_silent(raised.value, SECRET)


def assert_silent(error: BaseException, secret: str) -> None:
    """Check that neither an error nor any that it comes from gives a secret away."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in seen:
            seen.append(each)
            waiting += [each.__cause__, each.__context__]
            for text in (str(each), repr(each), *traceback.format_exception_only(each)):
                assert secret not in text
                assert quote(secret, safe="") not in text
