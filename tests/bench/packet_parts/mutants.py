"""Mutant schemata: every constant and comparison of the packet model, chosen at run time.

All sites are instrumented at once and compiled once: site i is `c + on(i)` for a constant c, and
`a <= b if on(i) else a < b` for a comparison. `on(i)` reads one word of a vector, and notes that
the site was reached. (Untch, Offutt, Harrold: Mutation analysis using mutant schemata, 1993.)
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numba
import numpy as np

from simlab.packet import jit as compiler

PACKAGE = Path(compiler.__file__).parent
# lookahead.py only fetches memory ahead: nothing in it changes a result.
MODULES = (
    "bitmap", "egress", "engine", "events", "hashing", "pause", "posting", "reaction", "receiver",
    "sender", "slots", "switching",
)  # fmt: skip
SWAP: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}  # fmt: skip
MOST_SITES = 4096
SWITCHES = np.zeros(2 * MOST_SITES, dtype=np.int64)
_ADDRESS = SWITCHES.ctypes.data


@numba.njit  # type: ignore[untyped-decorator]
def on(site: int) -> int:
    """Return 1 if the mutant of this site is the one that runs; note that it was reached."""
    switches = compiler._int_pointer(_ADDRESS)
    switches[MOST_SITES + site] = 1
    return switches[site]


def reached() -> list[int]:
    """Return the sites reached since the last call."""
    sites: list[int] = np.flatnonzero(SWITCHES[MOST_SITES:]).tolist()
    SWITCHES[MOST_SITES:] = 0
    return sites


@dataclass(frozen=True)
class Mutant:
    """One change at one place."""

    module: str
    line: int
    text: str
    source: str  # of the line
    again: int  # how many of the same text are before it on the line

    @property
    def key(self) -> str:
        """Return what names it whatever moves above it."""
        again = f" ({self.again + 1})" if self.again else ""
        return f"{self.module}: {self.source}: {self.text}{again}"


class _Instrument(ast.NodeTransformer):
    """Replaces every site of a module by an expression that asks which mutant runs."""

    def __init__(self, module: str, text: str, mutants: list[Mutant]) -> None:
        self.module = module
        self.lines = text.splitlines()
        self.mutants = mutants
        self.plain: dict[str, ast.expr] = {}  # constants of the module
        self.constants: dict[str, ast.expr] = {}  # those that its functions use, written into them

    def _switch(self, line: int, text: str) -> ast.expr:
        source = self.lines[line - 1].strip()
        alike = (self.module, line, text)
        again = sum((one.module, one.line, one.text) == alike for one in self.mutants)
        self.mutants.append(Mutant(self.module, line, text, source, again))
        return ast.parse(f"on({len(self.mutants) - 1})", mode="eval").body

    def visit_Module(self, node: ast.Module) -> ast.AST:
        for part in node.body:
            if isinstance(part, ast.Assign) and not isinstance(part.value, ast.Call):
                (name,) = part.targets
                assert isinstance(name, ast.Name)
                self.plain[name.id] = part.value
            elif isinstance(part, ast.FunctionDef) and part.decorator_list:  # compiled
                part.body = [self.visit(statement) for statement in part.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or node.id not in self.plain:
            return node
        if node.id not in self.constants:
            self.constants[node.id] = self.visit(copy.deepcopy(self.plain[node.id]))
        return copy.deepcopy(self.constants[node.id])

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) not in (int, float):
            return node
        switch = self._switch(node.lineno, f"{node.value} -> {node.value + 1}")
        return ast.BinOp(node, ast.Add(), switch)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        shown = ast.unparse(node)
        self.generic_visit(node)
        parts: list[ast.expr] = []
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            plain = ast.Compare(copy.deepcopy(left), [operator], [copy.deepcopy(right)])
            other = SWAP.get(type(operator))
            if other is not None:
                text = f"{type(operator).__name__} -> {other.__name__}: {shown}"
                changed = ast.Compare(copy.deepcopy(left), [other()], [copy.deepcopy(right)])
                switch = ast.Compare(
                    self._switch(node.lineno, text), [ast.NotEq()], [ast.Constant(0)]
                )
                parts.append(ast.IfExp(switch, changed, plain))
            else:
                parts.append(plain)
            left = right
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the instrumented modules instead of the real ones."""

    def __init__(self) -> None:
        self.mutants: list[Mutant] = []
        self.trees: dict[str, ast.Module] = {}
        for module in MODULES:
            text = (PACKAGE / f"{module}.py").read_text()
            tree = _Instrument(module, text, self.mutants).visit(ast.parse(text))
            self.trees[f"simlab.packet.{module}"] = ast.fix_missing_locations(tree)

    def find_spec(self, name: str, _path: object, _target: object = None) -> object:
        if name in self.trees:
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, _spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["on"] = on
        exec(compile(self.trees[module.__name__], module.__name__, "exec"), module.__dict__)  # noqa: S102


def instrument() -> list[Mutant]:
    """Have the model imported instrumented from now on; return its mutants, by site."""
    loader = _Loader()
    if len(loader.mutants) > MOST_SITES:
        raise ValueError(f"{len(loader.mutants)} sites, room for {MOST_SITES}")
    compiler.entry = compiler.jit  # no cache on disk: addresses are this process's
    sys.meta_path.insert(0, loader)  # type: ignore[arg-type]
    return loader.mutants
