"""The file of a peer, ``peer.toml``: who it is, whom it talks to, and which experiment all of them agreed on.

::

    name = "basel"
    number = 0                        # from 0 on, no two peers the same
    run = "b7c1d0e2f3a4"              # the same for all peers of the run
    experiment = "agreed.toml"
    listen = "0.0.0.0:7300"
    address = "basel.example:7300"    # where neighbours find it
    deadline = 60.0                   # seconds that a round waits for its neighbours

    [data]                            # its own; without it, its share of the experiment's data
    path = "patients.csv"
    label = "ill"

    [neighbours.bern]
    number = 1
    address = "bern.example:7300"
    certificate = "neighbours/bern.pem"
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment, parse, read
from entrofed.experiment.problems import checked
from entrofed.experiment.sections.section import Section
from entrofed.experiment.toml import dumps
from entrofed.files import write_whole
from entrofed.peer import keys

NAME = "peer.toml"
RUN = "run"
"""The folder of a peer's run, below its own."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")]
Number = Annotated[int, Field(ge=0, lt=100_000)]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def check_address(address: str) -> str:
    """``host:port``; a ValueError if it is anything else."""
    host, colon, port = address.rpartition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", host) or not re.fullmatch("[0-9]+", port):
        raise ValueError(f"{address!r} is no address; it looks like host.example:7300")
    if not 0 < int(port) < 1 << 16:
        raise ValueError(f"{address!r}: a port is a number from 1 to 65535")
    return address


class NeighbourSection(Section):
    """One neighbour."""

    number: Number
    address: str
    certificate: str

    _address = field_validator("address")(check_address)


class PeerSection(Section):
    """The whole file."""

    name: Name
    number: Number
    run: Token
    experiment: str = "agreed.toml"
    listen: str
    address: str | None = None
    deadline: float = Field(60.0, gt=0)
    """Seconds that a round waits for neighbours."""
    start: float = Field(600.0, gt=0)
    """Seconds that the first round waits for them: they are still being started."""
    staleness: int = Field(0, ge=0, le=100)
    """By how many rounds a neighbour's model may be late and still be used."""
    data: dict[str, Any] | None = None
    neighbours: dict[Name, NeighbourSection] = Field(default_factory=dict)

    _listen = field_validator("listen")(check_address)

    @field_validator("address")
    @classmethod
    def _public_address(cls, address: str | None) -> str | None:
        return None if address is None else check_address(address)

    @model_validator(mode="after")
    def _different_peers(self) -> "PeerSection":
        numbers = [self.number, *(neighbour.number for neighbour in self.neighbours.values())]
        if twice := [number for number in numbers if numbers.count(number) > 1]:
            raise ValueError(f"number {twice[0]} is that of two peers; each has its own")
        if self.name in self.neighbours:
            raise ValueError(f"neighbour {self.name!r} has this peer's own name")
        return self


@dataclass(frozen=True)
class Neighbour:
    """A peer to talk to, with its certificate."""

    name: str
    number: int
    address: str
    certificate: bytes

    @cached_property
    def digest(self) -> str:
        """Of the certificate."""
        return keys.digest(self.certificate)


@dataclass(frozen=True)
class PeerFolder:
    """A peer's folder: its file, its key, the certificates of its neighbours, its run."""

    path: Path

    @cached_property
    def section(self) -> PeerSection:
        """What the file says."""
        path = self.path / NAME
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(
                f"{self.path}: there is no peer here ({NAME}); 'entrofed peer new' or 'entrofed peer join' makes one"
            ) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: not readable as TOML: {error}") from None
        return checked(PeerSection, table, str(path))

    def write(self, section: PeerSection) -> None:
        """Store the file."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / NAME, dumps(section.model_dump(exclude_none=True, exclude_defaults=True)))

    def experiment(self) -> Experiment:
        """What all peers agreed on, with this peer's own data if it has any; work is done in this process."""
        section, path = self.section, self.path / self.section.experiment
        overrides = ["engine.backend=inline"]
        experiment = read(path, overrides)
        if section.data is not None:
            own = {**({} if {"client", "partition"} & set(section.data) else {"clients": 1}), **section.data}
            for key in ("path", "owners"):
                if isinstance(own.get(key), str):
                    own[key] = str(self.path / own[key])
            experiment = parse({**experiment.model_dump(exclude_unset=True), "data": own}, where=str(self.path / NAME))
        if experiment.topology is None:
            raise ConfigError(
                f"{path}: peers need a [topology], for example kind = 'ring'; without one there is a server"
            )
        alone, real = "needs to see all clients, and a peer sees its own data alone", "is virtual, and peers are real"
        refused = {
            "faults.liars": (experiment.faults.liars, alone),
            "stop": (experiment.stop, alone),
            "data.validation": (experiment.data.validation, alone),
            "clock": (experiment.clock, real),
        }
        for key, (value, why) in refused.items():
            if value:
                raise ConfigError(f"{path}: {key} {why}; leave it out")
        return experiment

    @cached_property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """By number."""
        found = [
            Neighbour(name, known.number, known.address, keys.read(self.path / known.certificate))
            for name, known in self.section.neighbours.items()
        ]
        for neighbour in found:
            keys.parsed(neighbour.certificate, f"neighbour {neighbour.name}")
        return tuple(sorted(found, key=lambda neighbour: neighbour.number))

    @property
    def key(self) -> bytes:
        """The private key."""
        return keys.read(self.path / keys.KEY)

    @property
    def certificate(self) -> bytes:
        """The peer's own."""
        return keys.read(self.path / keys.CERTIFICATE)
