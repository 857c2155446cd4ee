"""``[engine]``: where the work is done."""

import os
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from entrofed.backends import FLOWER, backends
from entrofed.client.device import NAMES, Compile, Precision, resolved
from entrofed.errors import unknown
from entrofed.experiment.sections.section import Section, was_run


class EngineSection(Section):
    """Where the work is done. Only ``compile``, ``stack``, ``precision`` and the kind of ``device`` change results."""

    backend: str = "auto"
    """Where tasks run: ``inline`` (this process alone), ``processes``, ``auto`` (inline if all is done within
    two seconds, else processes), ``ray`` or ``flower``; the bits are the same."""
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """Worker processes; as many as there are cores unless given."""
    device: str = "cpu"
    """Where clients train: ``cpu``, ``cuda``, ``cuda:1``, ``mps``; ``auto`` is resolved when the file is read."""
    precision: Precision = "float32"
    """``bf16``: losses and gradients of training in bfloat16 where torch's autocast does so."""
    compile: Compile = False
    """``true``: torch's compiler; ``"native"``: the convolutions of small networks in C++."""
    stack: bool | Literal["auto"] = False
    """Whether clients train together, as one stacked computation; ``auto``: where that is known to be faster."""
    timeout: float = Field(3600.0, gt=0, le=1e6)
    """Seconds that a task may take before its worker is considered lost."""
    memory_mb: float = Field(1024.0, ge=0)
    """Memory for what clients keep between rounds, in megabytes; the rest is kept on disk."""

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, name: str, info: ValidationInfo) -> str:
        if not was_run(info) and name not in (names := [*backends(), FLOWER]):
            raise ValueError(str(unknown("engine.backend", name, names)))
        return name

    @field_validator("device")
    @classmethod
    def _known_device(cls, name: str, info: ValidationInfo) -> str:
        if was_run(info):
            return name
        if not NAMES.fullmatch(name):
            raise ValueError(f"engine.device = {name!r} must be 'cpu', 'cuda', a GPU such as 'cuda:1', 'mps' or 'auto'")
        return resolved(name)

    @field_validator("precision", mode="before")
    @classmethod
    def _no_fp16(cls, name: Any) -> Any:
        if name == "fp16":
            raise ValueError(
                "engine.precision = 'fp16' needs losses to be scaled, and steps to be skipped where they overflow, "
                "so that clients make different numbers of steps; choose 'bf16' or 'float32'"
            )
        return name

    @model_validator(mode="after")
    def _not_too_many(self, info: ValidationInfo) -> "EngineSection":
        most = max(64, 4 * (os.cpu_count() or 1))
        if self.backend in ("auto", "processes") and self.workers > most and not was_run(info):
            raise ValueError(
                f"engine.workers = {self.workers}: this machine has {os.cpu_count()} cores, and more than {most} "
                "workers take longer to start than they save; choose fewer"
            )
        return self

    @model_validator(mode="after")
    def _fits_stack(self, info: ValidationInfo) -> "EngineSection":
        if self.stack is False or was_run(info):
            return self
        for key, value in {"device": "cpu", "precision": "float32", "compile": False}.items():
            if getattr(self, key) != value:
                raise ValueError(
                    f"engine.stack is made for engine.{key} = {value!r}, not for {getattr(self, key)!r}; "
                    "leave one of them out"
                )
        if self.stack is True and self.backend == FLOWER:
            raise ValueError(
                "engine.stack = true: on Flower every client trains by itself; leave it out, or choose another backend"
            )
        return self

    @model_validator(mode="after")
    def _fits_compiler(self, info: ValidationInfo) -> "EngineSection":
        plain = {"device": "cpu", "precision": "float32"}
        for key, value in plain.items():
            if self.compile and getattr(self, key) != value and not was_run(info):
                raise ValueError(
                    f"engine.compile is made for engine.{key} = {value!r}, not for {getattr(self, key)!r}; "
                    "leave one of them out"
                )
        return self
