"""Mutation run: every constant and comparison of the packet model, changed one at a time.

./run bench packet_mutation [COUNT|all]; a seeded sample of COUNT (default 120) or all of them.
Each mutant runs the model's tests without compilation, in a process of its own; a mutant that no
test notices is a survivor and is listed. Functions that only prefetch memory have no effect on
results and are left out.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["NUMBA_DISABLE_JIT"] = "1"

from packet_parts.report import Report

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "simlab/packet"
MODULES = (
    "bitmap", "egress", "engine", "events", "pause", "posting", "reaction", "receiver", "sender",
    "slots", "switching",
)  # fmt: skip
TESTS = (
    "test_transport.py", "test_flow_control.py", "test_collectives.py", "test_invariants.py",
    "test_exact_times.py",
)  # fmt: skip
SWAP: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}  # fmt: skip
LONGEST_S = 120
SAMPLE = 120


@dataclass(frozen=True)
class Mutant:
    """One change: the number-th site of a module."""

    module: str
    number: int
    line: int
    text: str


class _Change(ast.NodeTransformer):
    """Visits the sites in order; changes the one that is wanted (none for -1)."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.sites: list[tuple[int, str]] = []

    def _site(self, line: int, text: str) -> bool:
        self.sites.append((line, text))
        return len(self.sites) - 1 == self.wanted

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name.startswith("hint_"):
            return node
        node.body = [self.visit(part) for part in node.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for place, operator in enumerate(node.ops):
            other = SWAP.get(type(operator))
            if other is not None:
                text = f"{type(operator).__name__} -> {other.__name__}: {ast.unparse(node)}"
                if self._site(node.lineno, text):
                    node.ops[place] = other()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) in (int, float) and self._site(
            node.lineno, f"{node.value} -> {node.value + 1}"
        ):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node


def mutants() -> list[Mutant]:
    """Return every site of the model."""
    found = []
    for module in MODULES:
        change = _Change()
        change.visit(ast.parse((PACKAGE / f"{module}.py").read_text()))
        found += [Mutant(module, i, line, text) for i, (line, text) in enumerate(change.sites)]
    return found


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutated module instead of the real one."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = f"simlab.packet.{mutant.module}"

    def find_spec(self, name, _path, _target=None):
        if name == self.name:
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, _spec):
        return None

    def exec_module(self, module) -> None:
        tree = ast.parse((PACKAGE / f"{self.mutant.module}.py").read_text())
        tree = ast.fix_missing_locations(_Change(self.mutant.number).visit(tree))
        exec(compile(tree, self.mutant.module, "exec"), module.__dict__)  # noqa: S102


def survives(mutant: Mutant | None) -> bool:
    """Run the tests in a child that sees the mutant; True if none of them notices."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)  # CPU time: a busy machine kills nobody
        if mutant is not None:
            sys.meta_path.insert(0, _Loader(mutant))
        import pytest

        paths = [str(ROOT / "tests/simlab/packet" / name) for name in TESTS]
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *paths])
        os._exit(int(code != 0))
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def main() -> int:
    """Run the sample and list the survivors."""
    import hypothesis  # noqa: F401  imported once, the children inherit it
    import numba  # noqa: F401
    import pytest  # noqa: F401

    os.chdir(ROOT)
    report = Report("packet_mutation")
    every = mutants()
    wanted = sys.argv[1] if len(sys.argv) > 1 else str(SAMPLE)
    chosen = (
        every if wanted == "all" else random.Random(1).sample(every, min(int(wanted), len(every)))
    )
    if not survives(None):
        print("the tests fail without any mutant", file=sys.stderr)
        return 1
    report.title(f"{len(chosen)} of {len(every)} mutants of {len(MODULES)} modules")
    left = []
    began = time.monotonic()
    for number, mutant in enumerate(chosen, start=1):
        if survives(mutant):
            left.append(mutant)
            report.line(f"  survived: {mutant.module}.py:{mutant.line}: {mutant.text}")
        if number % 20 == 0:
            print(f"{number} done, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    caught = 1 - len(left) / len(chosen)
    report.check("share of mutants caught", caught, 0.9, ">=", "")
    if len(chosen) < len(every):
        report.note(f"a seeded sample of {len(chosen)}; `all` runs every one of {len(every)}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
