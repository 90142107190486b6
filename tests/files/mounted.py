"""A directory of a backend as a file system of its own, so that the suite can look at what is mounted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from stateroom.files.backend import OPERATIONS
from stateroom.files.paths import normal_path
from stateroom.files.protocol import FileDownloadResponse, FileUploadResponse

__all__ = ["Mounted"]

WHERE_NONE_IS_EVERYTHING = ("glob", "grep", "search")


class Mounted:
    """Calls a backend with every path below ``directory``, and takes that off whatever it answers."""

    def __init__(self, backend: Any, directory: str) -> None:
        self._backend = backend
        self._directory = directory

    def __getattr__(self, name: str) -> Any:
        operation = name if name in OPERATIONS else name.removeprefix("a")
        if operation not in OPERATIONS:
            raise AttributeError(name)
        method = getattr(self._backend, name)

        def call(*args: Any, **options: Any) -> Any:
            return self._inner(method(*self._outer(operation, args, options), **options))

        async def acall(*args: Any, **options: Any) -> Any:
            return self._inner(await method(*self._outer(operation, args, options), **options))

        chosen: Callable[..., Any] = call if name == operation else acall
        return chosen

    def _outer(self, operation: str, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """Put the paths among the arguments below the directory."""
        given = list(args)
        if operation == "upload_files":
            return [[(self._below(path), data) for path, data in given[0]]]
        if operation == "download_files":
            return [[self._below(path) for path in given[0]]]
        if operation == "prune":
            options["path"] = self._below(options.get("path", "/"))
        elif operation in WHERE_NONE_IS_EVERYTHING:
            if len(given) > 1:
                given[1] = self._below("/" if given[1] is None else given[1])
            else:
                path = options.get("path")
                options["path"] = self._below("/" if path is None else path)
        elif given:
            given[0] = self._below(given[0])
        return given

    def _below(self, path: Any) -> Any:
        try:
            normal_path(path)
        except ValueError:
            return path
        return f"{self._directory}/{path}"

    def _inner(self, answer: Any) -> Any:
        """Take the directory off paths and messages."""
        if isinstance(answer, list):
            return [self._inner(each) for each in answer]
        if isinstance(answer, dict) and "path" in answer:
            return answer | {"path": self._stripped(answer["path"])}
        if isinstance(answer, FileUploadResponse | FileDownloadResponse):
            # These tell the path as it was spelled.
            answer.path = _spelled(answer.path, self._directory)
            answer.error = self._stripped(answer.error)
            return answer
        if is_dataclass(answer) and not isinstance(answer, type):
            for field in fields(answer):
                value = getattr(answer, field.name)
                if field.name in ("path", "error") and isinstance(value, str):
                    setattr(answer, field.name, self._stripped(value))
                elif isinstance(value, list):
                    setattr(answer, field.name, self._inner(value))
        return answer

    def _stripped(self, text: Any) -> Any:
        return text.replace(f"{self._directory}/", "/") if isinstance(text, str) else text


def _spelled(path: Any, directory: str) -> Any:
    return path.removeprefix(f"{directory}/") if isinstance(path, str) else path
