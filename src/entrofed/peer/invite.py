"""Two organizations become neighbours: each sends the other its card, and they compare fingerprints on the phone.

A card is a JSON file: name, number, address and certificate of a peer, the run, and the experiment that all agreed on.
It holds no secret, and names no code: an experiment with parts of somebody's own is passed on by hand.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from entrofed.errors import ConfigError
from entrofed.experiment.config import parse, read, to_toml
from entrofed.experiment.toml import flat
from entrofed.files import write_whole
from entrofed.peer import keys
from entrofed.peer.config import NAME, Name, NeighbourSection, Number, PeerFolder, PeerSection, Token, check_address
from entrofed.peer.new import AGREED
from entrofed.registry.references import is_reference

MAX_CARD = 1 << 18


class Card(BaseModel):
    """What a neighbour needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    number: Number
    address: str
    run: Token
    certificate: str = Field(max_length=1 << 14)
    experiment: str = Field(max_length=1 << 17)

    _address = field_validator("address")(check_address)


@dataclass(frozen=True)
class Joined:
    """What came of a card: names, and fingerprints to compare."""

    name: str
    neighbour: str
    ours: str
    theirs: str


def write_card(folder: Path, output: Path | None = None) -> tuple[Path, str]:
    """Write the card of the peer in a folder; returns its path and the fingerprint."""
    peer = PeerFolder(folder)
    section = peer.section
    agreed = to_toml(read(folder / section.experiment))
    check_no_code(agreed, str(folder / section.experiment))
    card = Card(
        name=section.name,
        number=section.number,
        address=section.address or section.listen,
        run=section.run,
        certificate=peer.certificate.decode(),
        experiment=agreed,
    )
    path = output or Path(f"{section.name}.card")
    write_whole(path, card.model_dump_json(indent=2) + "\n")
    return path, keys.fingerprint(peer.certificate)


def read_card(path: Path) -> Card:
    """A card; a ConfigError if it is none, or is to run somebody's code."""
    try:
        if path.stat().st_size > MAX_CARD:
            raise ConfigError(f"{path}: larger than a card can be ({MAX_CARD:,} bytes)")
        card = Card.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path}: not the card of a peer: {str(error)[:300]}") from None
    keys.parsed(card.certificate.encode(), str(path))
    check_no_code(card.experiment, str(path))
    return card


def check_no_code(text: str, where: str) -> None:
    """Raise a ConfigError if an experiment names code or files, which a card must not bring."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: the experiment is not TOML: {error}") from None
    for key, value in flat(table).items():
        values = value if isinstance(value, list | tuple) else [value]
        named = key.split(".")[0] in ("model", "method", "metrics") and any(
            isinstance(one, str) and is_reference(one) for one in values
        )
        if named or key in ("data.path", "data.owners", "topology.path") or key.startswith("data.options."):
            raise ConfigError(
                f"{where}: {key} = {value!r} names code or a file, and a card brings neither; agree on it by other "
                f"means, and write it into {AGREED} of each peer"
            )


def join_card(
    folder: Path,
    path: Path,
    *,
    name: str | None = None,
    number: int | None = None,
    listen: str | None = None,
    address: str | None = None,
    fingerprint: str | None = None,
) -> Joined:
    """Make the sender of a card a neighbour of the peer in a folder; where there is none, make one of the same run."""
    card = read_card(path)
    certificate = card.certificate.encode()
    theirs = keys.fingerprint(certificate)
    if fingerprint is not None and _letters(fingerprint) != _letters(theirs):
        raise ConfigError(
            f"{path}: its fingerprint is\n{theirs}\nand not the one that you were told; nothing is changed"
        )
    if (words := keys.expired(certificate, str(path))) is not None:
        raise ConfigError(f"{path}: the certificate has {words}; ask for a new card")
    peer = PeerFolder(folder)
    given = {"name": name, "number": number, "listen": listen}
    if (folder / NAME).exists():
        if superfluous := [key for key, value in {**given, "address": address}.items() if value is not None]:
            raise ConfigError(f"{folder}: there is a peer already; leave out {', '.join(superfluous)}")
        section = peer.section
    else:
        if lacking := [key for key, value in given.items() if value is None]:
            raise ConfigError(f"{folder}: there is no peer yet; to make one, say also {', '.join(lacking)}")
        section = PeerSection.model_validate(
            {"name": name, "number": number, "run": card.run, "listen": listen, "address": address}
        )
        parse(tomllib.loads(card.experiment), where=str(path))
    if section.run != card.run:
        raise ConfigError(f"{path}: it is for run {card.run!r}, and {folder} plays {section.run!r}")
    known = {**section.neighbours}
    known[card.name] = NeighbourSection(
        number=card.number, address=card.address, certificate=f"neighbours/{card.name}.pem"
    )
    try:
        section = PeerSection.model_validate({**section.model_dump(), "neighbours": known})
    except ValidationError as error:
        raise ConfigError(f"{path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    before = folder / f"neighbours/{card.name}.pem"
    if before.exists() and keys.digest(before.read_bytes()) != keys.digest(certificate):
        raise ConfigError(
            f"{path}: {card.name} is known here with another certificate; if it has a new one, compare the "
            f"fingerprint\n{theirs}\non the phone, remove {before}, and join again"
        )
    (folder / "neighbours").mkdir(parents=True, exist_ok=True)
    if not (folder / NAME).exists():
        keys.write(folder, section.name)
        write_whole(folder / AGREED, card.experiment)
    write_whole(before, certificate)
    peer.write(section)
    return Joined(section.name, card.name, keys.fingerprint(peer.certificate), theirs)


def _letters(fingerprint: str) -> str:
    return "".join(fingerprint.split()).replace(":", "").upper()
