"""What a model may pass to each file tool, and what it is told of it."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypeAlias

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

__all__ = [
    "LINES",
    "DeleteArguments",
    "EditArguments",
    "GlobArguments",
    "GrepArguments",
    "LsArguments",
    "MultiEditArguments",
    "OutputMode",
    "ReadArguments",
    "SearchArguments",
    "WriteArguments",
]

LINES: Final = 100
"""Lines that ``read_file`` shows unless told otherwise."""

OutputMode: TypeAlias = Literal["files_with_matches", "content", "count"]

FilePath: TypeAlias = Annotated[
    str, Field(description="The file's path from the root, as in /notes/today.md.")
]
Directory: TypeAlias = Annotated[
    str | None, Field(description="Look only in this directory, or this one file; everywhere if left out.")
]


class LsArguments(BaseModel):
    """Arguments of ``ls``."""

    path: str = Field(description="The directory's path from the root, as in /notes; / is the root.")


class ReadArguments(BaseModel):
    """Arguments of ``read_file``."""

    file_path: FilePath
    offset: int = Field(0, description="Lines to skip: 0 begins with the first line.")
    limit: int = Field(LINES, description="Lines to show at most.")


class WriteArguments(BaseModel):
    """Arguments of ``write_file``."""

    file_path: FilePath
    content: str = Field(description="All that the file is to hold.")


class Replacement(TypedDict):
    """One of the edits of ``multi_edit_file``."""

    old_string: Annotated[str, Field(description="The exact text to replace.")]
    new_string: Annotated[str, Field(description="What to put in its place.")]
    replace_all: NotRequired[
        Annotated[
            bool, Field(description="true replaces every occurrence; otherwise there must be just one.")
        ]
    ]


class EditArguments(BaseModel):
    """Arguments of ``edit_file``."""

    file_path: FilePath
    old_string: str = Field(description="The exact text to replace, with its white space and line ends.")
    new_string: str = Field(description="What to put in its place.")
    replace_all: bool = Field(
        False, description="true replaces every occurrence; otherwise there must be just one."
    )


class MultiEditArguments(BaseModel):
    """Arguments of ``multi_edit_file``."""

    file_path: FilePath
    edits: list[Replacement] = Field(
        description="The replacements, in order; each sees the result of those before."
    )


class DeleteArguments(BaseModel):
    """Arguments of ``delete``."""

    file_path: str = Field(description="The path of the file or directory, from the root.")


class GlobArguments(BaseModel):
    """Arguments of ``glob``."""

    pattern: str = Field(
        description=(
            "*.md finds names at any depth; notes/*.md finds paths below the directory that is searched, and "
            "notes/**/*.md at any depth there. {a,b} is either. Names that begin with a dot are found only "
            "if the pattern has the dot."
        )
    )
    path: Directory = None


class GrepArguments(BaseModel):
    """Arguments of ``grep``."""

    pattern: str = Field(description="The text to find, letter for letter: no regular expression.")
    path: Directory = None
    glob: str | None = Field(None, description="Look only in files that this pattern matches, as in *.md.")
    output_mode: OutputMode = Field(
        "files_with_matches",
        description=(
            "files_with_matches lists paths; content lists the lines with their numbers; count says how many "
            "lines there are in each file."
        ),
    )
    max_count: int | None = Field(None, gt=0, description="Lines to find at most, over all files.")


class SearchArguments(BaseModel):
    """Arguments of ``search_files``."""

    query: str = Field(description="What to look for, in words.")
    path: Directory = None
    limit: int = Field(10, ge=1, description="Files to list at most.")
