"""Jobs: which ports, queue pairs and traffic classes belong to one piece of work.

The agents' facts know the job of a queue pair by its process (pid, cgroup, environment); where
they do not, a host list says on which hosts a job runs: Slurm's, Kubernetes' or a plain file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from collectors.model.entities import Device, Host, Port
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.facts import QueuePairFact
from collectors.model.roce import dscp_of_tclass
from collectors.user_input.text_file import read_text
from collectors.user_input.yaml_text import parse_yaml

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MOST_HOSTS: Final = 1 << 17


class Pairs(Protocol):
    """The part of a window that jobs are read from."""

    def queue_pairs(self) -> Sequence[QueuePairFact]:
        """Return the queue pairs that are known."""


class Ports(Protocol):
    """The part of a fabric that jobs are read from."""

    def ports(self) -> Sequence[Port]:
        """Return all RDMA ports."""


@dataclass(frozen=True)
class Job:
    """One piece of work. dscps: of its queue pairs. how: what says so, `agents` or a file."""

    name: str
    hosts: tuple[str, ...]
    ports: tuple[Port, ...]
    queue_pairs: tuple[QueuePairFact, ...]
    dscps: tuple[int, ...]
    how: str


@dataclass
class _Gathered:
    ports: dict[Port, None] = field(default_factory=dict)
    pairs: list[QueuePairFact] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)
    how: str = "agents"


def jobs_of(
    facts: Pairs, fabric: Ports, lists: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Job]:
    """Return the jobs by name: those that agents see, and those of host lists.

    lists: name -> hosts. All queue pairs of a listed host are its job's, unless they say
    another.
    """
    gathered: dict[str, _Gathered] = {}
    job_of_host: dict[str, str] = {}
    for name, hosts in (lists or {}).items():
        of_list = gathered.setdefault(name, _Gathered(how="host list"))
        for host in hosts:
            of_list.hosts.setdefault(host)
            job_of_host[host] = name
    by_place = {(port.device, port.number): port for port in fabric.ports()}
    for fact in facts.queue_pairs():
        name = fact.job or job_of_host.get(fact.device.host, "")
        if not name:
            continue
        job = gathered.setdefault(name, _Gathered())
        job.pairs.append(fact)
        job.hosts.setdefault(fact.device.host)
        port = by_place.get((fact.device, fact.port))
        if port is not None:
            job.ports.setdefault(port)
    for port in fabric.ports():
        named = job_of_host.get(port.device.host)
        if named is not None and not gathered[named].pairs:
            gathered[named].ports.setdefault(port)
    return {name: _job(name, found) for name, found in sorted(gathered.items())}


def _job(name: str, found: _Gathered) -> Job:
    classes = {dscp_of_tclass(fact.tclass) for fact in found.pairs if fact.tclass is not None}
    return Job(
        name,
        tuple(sorted(found.hosts)),
        tuple(sorted(found.ports, key=str)),
        tuple(found.pairs),
        tuple(sorted(classes)),
        found.how,
    )


def members(job: Job) -> frozenset[Host | Device | Port]:
    """Return the hosts, devices and ports that a job runs on."""
    return frozenset((*map(Host, job.hosts), *job.ports, *(port.device for port in job.ports)))


def read_host_lists(path: Path, name: str = "") -> dict[str, tuple[str, ...]]:
    """Return job -> hosts of a file; `parse_host_lists` says which forms it may have.

    Raises ConfigInvalid, Malformed.
    """
    text = read_text(path, "read host list")
    return parse_host_lists(text, name or path.stem, str(path))


def parse_host_lists(text: str, name: str, where: str = "host list") -> dict[str, tuple[str, ...]]:
    """Return job -> hosts of a text. Raises Malformed, naming `where`.

    Forms: hosts in Slurm's form (`node[001-128,130],gpu7`), by lines or commas, all of one job
    called `name`; a YAML or JSON mapping of job to such hosts; the JSON of `kubectl get pods`,
    where a pod's job is its label `job-name` (else its owner) and its host `spec.nodeName`.
    """
    loaded: Any = None
    if text.lstrip()[:1] in ("{", "[") or re.search(r"(?m)^[^\s#:\[]+:(\s|$)", text):
        try:
            json = text.lstrip()[:1] == "{"
            loaded = msgspec.json.decode(text) if json else parse_yaml(text, where)
        except (ConfigInvalid, msgspec.DecodeError, RecursionError) as error:
            why = error.why if isinstance(error, ConfigInvalid) else str(error)
            raise Malformed(where, "parse", f"neither hosts nor a mapping ({why})") from error
    if isinstance(loaded, dict) and isinstance(loaded.get("items"), list):
        return _pods(loaded["items"])
    if isinstance(loaded, dict):
        return {str(job): _hosts(hosts, where) for job, hosts in loaded.items()}
    return {name: _hosts(loaded if isinstance(loaded, list) else text, where)}


def _hosts(written: Any, where: str) -> tuple[str, ...]:
    parts = written if isinstance(written, list) else [written]
    found: dict[str, None] = {}
    for part in parts:
        if not isinstance(part, str):
            raise Malformed(where, "parse", f"{part!r} is no host")
        for line in part.splitlines():
            for host in expand(line.partition("#")[0], where):
                found.setdefault(host)
    return tuple(found)


def expand(text: str, where: str = "host list") -> list[str]:
    """Return the hosts of Slurm's short form: `n[01-03,7]` is n01 n02 n03 n7. Raises Malformed."""
    hosts: list[str] = []
    for word in re.findall(r"(?:[^\s,\[\]]+|\[[^\]]*\])+|[\[\]]", text):
        choices = [
            _numbers(piece[1:-1], where) if piece[:1] == "[" else [piece]
            for piece in re.split(r"(\[[^\]]*\])", word)
        ]
        if any("[" in part or "]" in part for choice in choices for part in choice):
            raise Malformed(where, "parse", f"{word!r} has a bracket without its like")
        count = 1
        for choice in choices:
            count *= len(choice)
        if count + len(hosts) > _MOST_HOSTS:
            raise Malformed(where, "parse", f"{word!r} stands for over {_MOST_HOSTS} hosts")
        hosts += ["".join(parts) for parts in itertools.product(*choices)]
    return hosts


def _numbers(text: str, where: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise Malformed(where, "parse", f"[{text}] is no list of numbers")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _MOST_HOSTS:
            raise Malformed(where, "parse", f"{part} is no range")
        found += [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
    return found


def _pods(pods: list[Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for pod in pods:
        meta = pod.get("metadata", {}) if isinstance(pod, dict) else {}
        host = pod.get("spec", {}).get("nodeName") if isinstance(pod, dict) else None
        labels = meta.get("labels") or {}
        owners = meta.get("ownerReferences") or [{}]
        job = (
            labels.get("batch.kubernetes.io/job-name")
            or labels.get("job-name")
            or owners[0].get("name")
            or meta.get("name")
        )
        if host and job:
            found.setdefault(str(job), {}).setdefault(str(host))
    return {job: tuple(hosts) for job, hosts in sorted(found.items())}
