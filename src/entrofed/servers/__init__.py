"""Parts that make the next model from the weighted updates."""

from entrofed.servers.average import Average
from entrofed.types import ServerRule

SERVERS: dict[str, type[ServerRule]] = {part.name: part for part in (Average,)}
