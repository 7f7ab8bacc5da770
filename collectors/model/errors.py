"""The typed errors of the project; each one reaches the user as one line.

The text has one form, `subject: what failed: why`, where the subject is the device, port,
target or file concerned. Foreign errors (OSError, RpcError, ...) are turned into these at the
edge, once.
"""


class FabricError(Exception):
    """A failure with its subject.

    subject: canonical entity, target, file or config path that it concerns.
    what: the operation that failed.
    why: the reason, with the fix where there is one.
    """

    def __init__(self, subject: str, what: str, why: str) -> None:
        super().__init__(subject, what, why)
        self.subject = subject
        self.what = what
        self.why = why

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}: {self.why}"


class NotSupported(FabricError):
    """This source will never work here (no such driver, kernel, MIB or model)."""


class Unavailable(FabricError):
    """This source does not answer now and may answer later."""


class Denied(FabricError):
    """Permission is missing; the reason says which."""


class Malformed(FabricError):
    """The bytes or text of a peer, file or message are wrong.

    data: the offending bytes (at most a few hundred); offset: where in them, if known.
    """

    def __init__(
        self, subject: str, what: str, why: str, data: bytes = b"", offset: int | None = None
    ) -> None:
        super().__init__(subject, what, why)
        self.data = data[:256]
        self.offset = offset


class ConfigInvalid(FabricError):
    """A configuration file or option is wrong; subject is file and path within it."""
