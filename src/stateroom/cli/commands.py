"""The commands and their arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from stateroom import __version__
from stateroom.cli.console import log_to_stderr, said, say
from stateroom.cli.doctor import doctor
from stateroom.cli.serving import dev, start
from stateroom.search.index_config import DistanceType, VectorType

__all__ = ["app"]

app = typer.Typer(
    name="stateroom", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

Uri = Annotated[
    str, typer.Argument(envvar="STATEROOM_POSTGRES_URI", help="postgresql://user:password@host:5432/database")
]


@app.callback(invoke_without_command=True)
def stateroom(
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    """State and memory for LangGraph agents, on storage you own."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def migrate(
    uri: Uri,
    schema: Annotated[str, typer.Option(help="The schema that holds the tables.")] = "stateroom",
    index_key: Annotated[
        list[str] | None, typer.Option(help="A key to index, as in index_keys; may be repeated.")
    ] = None,
    dims: Annotated[
        int | None, typer.Option(help="Prepare for vectors of so many numbers, which needs pgvector.")
    ] = None,
    distance_type: Annotated[DistanceType, typer.Option(help="The metric of the HNSW index.")] = "cosine",
    vector_type: Annotated[VectorType, typer.Option(help="How vectors are kept.")] = "vector",
    hnsw: Annotated[bool, typer.Option("--hnsw", help="Build an HNSW index over the vectors.")] = False,
) -> None:
    """Create or migrate all tables: of items, checkpoints and the server; others may go on meanwhile.

    Each does it on first use; this is for a deployment that wants it done before.
    """
    log_to_stderr()
    with said():
        from stateroom.savers import PostgresSaver
        from stateroom.stores.postgres import migrate_postgres

        migrate_postgres(
            uri,
            schema=schema,
            index_keys=index_key or (),
            dims=dims,
            distance_type=distance_type,
            vector_type=vector_type,
            hnsw=hnsw,
        )
        with PostgresSaver(uri, schema=schema) as saver:
            saver.setup()
    say(f"The schema {schema} is up to date.")


app.command()(dev)
app.command()(start)
app.command()(doctor)
