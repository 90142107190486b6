"""Reads a ``langgraph.json`` as LangGraph's own command line writes and reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stateroom.boot.sections import LIMITS, Layer, Section
from stateroom.errors import Misconfigured
from stateroom.model.text import show
from stateroom.model.thread_ttl import parse_thread_ttl_config

__all__ = ["CORS_KEYS", "SILENT", "WITHOUT_EFFECT", "Project", "read_project"]

SILENT: Final = frozenset(
    {
        *("$schema", "python_version", "node_version", "pip_config_file", "pip_installer", "source"),
        *("dockerfile_lines", "base_image", "image_distro", "api_version", "keep_pkg_tools"),
    }
)
"""Keys that say how to build an image, which is not the server's affair."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "priority": "runs are executed in the order in which they were made",
    "webhooks": "runs with a webhook are refused",
    "ui": "there is no /ui",
    "ui_config": "there is no /ui",
    "auth.cache": "every request is authenticated",
    "auth.openapi": "/openapi.json names no security scheme",
    "http.logging_headers": "no header is logged",
}
"""Keys of LangGraph's that this server does not act on, and what it does instead."""

CORS_KEYS: Final = (
    *("allow_origins", "allow_methods", "allow_headers", "allow_credentials"),
    *("allow_origin_regex", "expose_headers", "max_age"),
)

GROUPS: Final = ("assistants", "threads", "runs", "crons", "store", "mcp", "a2a", "meta")
"""Groups of routes that ``http.disable_<group>`` turns off."""

ABSENT_GROUPS: Final = ("ui", "webhooks")
"""Groups of LangGraph's server that this one does not have."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a ``langgraph.json`` says: settings, variables for the environment, and what was not understood.

    ``env`` holds what the environment lacks only: it wins. ``warnings`` are sentences.
    """

    layer: Layer
    env: Mapping[str, str]
    warnings: tuple[str, ...]


def read_project(path: Path) -> Project:
    """Read the file; raise Misconfigured, naming the key and the fix, for what cannot work."""
    top = Section(_parsed(path))
    reader = _Reader(path.resolve().parent)
    for read in (reader.graphs, reader.store, reader.checkpointer, reader.auth, reader.http, reader.ours):
        read(top)
    env = _environment(top, reader.base)
    for key in SILENT:
        top.any(key)
    reader.note_unknown(top)
    return Project(reader.layer, env, tuple(reader.warnings))


def _parsed(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Misconfigured(
            f"{path}: {error.strerror}; name the file by --config, or start in its folder", field="config"
        ) from error
    except ValueError as error:
        raise Misconfigured(f"{path} is no JSON: {error}", field="config") from error


class _Reader:
    """Collects what the sections say. Each method reads one of them, and notes the keys that it lacks."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.layer: Layer = {"base": base}
        self.warnings: list[str] = []

    def note_unknown(self, section: Section) -> None:
        for name in section.unasked():
            if reason := WITHOUT_EFFECT.get(name):
                self.warnings.append(f"{name} has no effect here: {reason}")
            else:
                self.warnings.append(f"{name} is not known and has no effect; remove it")

    def _set(self, name: str, value: object) -> None:
        if value is not None:
            self.layer[name] = value

    def graphs(self, top: Section) -> None:
        section = top.section("graphs")
        if not section.content:
            raise Misconfigured('graphs is missing: write {"agent": "./agent.py:graph"}', field="graphs")
        sources: dict[str, str] = {}
        descriptions: dict[str, str] = {}
        for graph_id, said in section.content.items():
            if isinstance(said, str):
                sources[graph_id] = section.reference(graph_id) or ""
                continue
            inner = section.section(graph_id)
            source = inner.reference("path")
            if source is None:
                raise section.refuse(graph_id, 'write "./file.py:name" or {"path": ..., "description": ...}')
            sources[graph_id] = source
            if description := inner.text("description"):
                descriptions[graph_id] = description
            self.note_unknown(inner)
        self.layer |= {"graphs": sources, "descriptions": descriptions}
        self._set("dependencies", top.texts("dependencies"))

    def store(self, top: Section) -> None:
        section = top.section("store")
        for key in ("path", "adapter"):
            section.reference(key)
        for key in ("index", "ttl"):
            section.mapping(key)
        known = {
            key: section.content[key] for key in ("path", "adapter", "index", "ttl") if key in section.content
        }
        self.layer["store"] = known
        self.note_unknown(section)

    def checkpointer(self, top: Section) -> None:
        section = top.section("checkpointer")
        self._set("checkpointer_path", section.reference("path"))
        if section.mapping("ttl") is not None:
            self.layer["thread_ttl"] = parse_thread_ttl_config(section.any("ttl"))
        if section.mapping("serde") is not None:
            self.layer["serde"] = _serde(section.section("serde"), self)
        self.note_unknown(section)

    def auth(self, top: Section) -> None:
        if top.any("encryption") is not None:
            raise Misconfigured(
                "encryption: this server does not encrypt what it keeps, and would keep in the clear what "
                "is meant to be encrypted; encrypt the disk or the database, and remove it",
                field="encryption",
            )
        section = top.section("auth")
        self._set("auth_path", section.reference("path"))
        disabled = section.flag("disable_studio_auth")
        self._set("studio_auth", None if disabled is None else not disabled)
        if "path" not in section.content and section.content:
            raise Misconfigured(
                "auth has no path, so that anybody could do anything; name your langgraph_sdk.Auth by "
                'auth.path, as "./auth.py:auth", or remove auth',
                field="auth.path",
            )
        self.note_unknown(section)

    def http(self, top: Section) -> None:
        section = top.section("http")
        self._set("http.app", section.reference("app"))
        self._set("http.custom_route_auth", section.flag("enable_custom_route_auth"))
        self._set(
            "http.middleware_order", section.one_of("middleware_order", ("auth_first", "middleware_first"))
        )
        self._set("http.mount_prefix", _prefix(section))
        self._set("http.disabled", frozenset(group for group in GROUPS if section.flag(f"disable_{group}")))
        for group in ABSENT_GROUPS:
            if section.flag(f"disable_{group}") is False:
                self.warnings.append(
                    f"{section.field(f'disable_{group}')} is false and there is no /{group} here"
                )
        if section.any("cors") is not None:
            self.layer["http.cors"] = self._cors(section.section("cors"))
        self._headers(section)
        self.note_unknown(section)

    def _cors(self, section: Section) -> dict[str, Any]:
        for key in ("allow_origins", "allow_methods", "allow_headers", "expose_headers"):
            section.texts(key)
        section.flag("allow_credentials")
        section.text("allow_origin_regex")
        section.number("max_age", int, 0, 10**9)
        self.note_unknown(section)
        return {key: section.content[key] for key in CORS_KEYS if key in section.content}

    def _headers(self, section: Section) -> None:
        configurable = section.section("configurable_headers")
        self._set("http.configurable_includes", _patterns(configurable, "includes", "include"))
        self._set("http.configurable_excludes", _patterns(configurable, "excludes", "exclude"))
        self.note_unknown(configurable)

    def ours(self, top: Section) -> None:
        section = top.section("stateroom")
        self._set("storage", section.one_of("storage", ("memory", "sqlite", "postgres")))
        self._set("sqlite_path", section.text("path"))
        self._set("synchronous", section.one_of("synchronous", ("NORMAL", "FULL")))
        self._set("postgres_schema", section.text("schema"))
        self._set("postgres_pool", section.mapping("pool"))
        self._set("prepared_statements", section.flag("prepared_statements"))
        self._set("index_keys", section.texts("index_keys"))
        self._set("keep_graph_storage", section.flag("keep_graph_storage"))
        limits = section.section("limits")
        for name, (kind, low, high) in LIMITS.items():
            self._set(f"limits.{name}", limits.number(name, kind, low, high))
        for name in (*section.unasked(), *limits.unasked()):
            raise Misconfigured(f"{name} is not a setting; see docs/langgraph-json.md", field=name)


def _prefix(section: Section) -> str | None:
    prefix = section.text("mount_prefix")
    if prefix is not None and (not prefix.startswith("/") or prefix.endswith("/")):
        raise section.refuse("mount_prefix", 'write it as "/agents", with a slash before and none behind')
    return prefix


def _patterns(section: Section, *spellings: str) -> tuple[str, ...] | None:
    found = [section.texts(key) for key in spellings]
    return next((patterns for patterns in found if patterns is not None), None)


def _serde(section: Section, reader: _Reader) -> dict[str, Any]:
    section.flag("pickle_fallback")
    for key in ("allowed_json_modules", "allowed_msgpack_modules"):
        named = section.any(key)
        if named is not None and named is not True and not _is_list_of_paths(named):
            raise section.refuse(key, 'write true, or a list of paths such as ["package.module", "Class"]')
    known = ("pickle_fallback", "allowed_json_modules", "allowed_msgpack_modules")
    reader.note_unknown(section)
    return {key: section.content[key] for key in known if key in section.content}


def _is_list_of_paths(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(path, list) and all(isinstance(part, str) for part in path) for path in value)


def _environment(top: Section, base: Path) -> dict[str, str]:
    """Return the variables of ``env``: an object, or the name of a file of lines ``NAME=value``."""
    said = top.any("env")
    if said is None:
        return {}
    if isinstance(said, str):
        return _from_file(base / Path(said).expanduser())
    for name, value in Section(said, "env").content.items():
        if isinstance(value, (dict, list)):
            raise Misconfigured(f"env.{name} is {show(value)}; write a text", field=f"env.{name}")
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in said.items()
        if value is not None
    }


def _from_file(file: Path) -> dict[str, str]:
    from dotenv import dotenv_values

    if not file.is_file():
        raise Misconfigured(f"env: there is no file {file}; make it, or remove env", field="env")
    return {name: value for name, value in dotenv_values(file).items() if value is not None}
