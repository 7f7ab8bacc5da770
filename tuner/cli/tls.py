"""Options for a tuner that speaks TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from collectors.model.errors import ConfigInvalid

if TYPE_CHECKING:
    from tuner.store.sources import Tls

_PANEL = "TLS"
CaFile = Annotated[
    str,
    typer.Option(
        "--ca", envvar="FABRIC_TUNER_CA", help="authority of the tuner", rich_help_panel=_PANEL
    ),
]
CertFile = Annotated[
    str,
    typer.Option(
        "--cert", envvar="FABRIC_TUNER_CERT", help="own certificate", rich_help_panel=_PANEL
    ),
]
KeyFile = Annotated[
    str,
    typer.Option("--key", envvar="FABRIC_TUNER_KEY", help="its key", rich_help_panel=_PANEL),
]


def tls_of(ca: str, cert: str, key: str) -> Tls | None:
    """Return the TLS files of the options, None for a connection in clear."""
    from tuner.store.sources import Tls

    if not ca:
        if cert or key:
            raise ConfigInvalid("--cert", "TLS", "needs --ca as well")
        return None
    if bool(cert) != bool(key):
        raise ConfigInvalid("--cert", "TLS", "certificate and key go together")
    return Tls(ca, cert, key)
