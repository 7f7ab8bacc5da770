"""Mutant schemata: every constant and comparison of the packet model, chosen at run time.

All sites are instrumented at once and compiled once: with on = mutant_on(i), site i is `c + on` for
a constant c, `on == 0` for True, and `a <= b if on else a < b` for a comparison. The call reads one
word of a vector, and notes that the site was reached. (Untch, Offutt, Harrold: Mutation analysis
using mutant schemata, 1993.)
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numba
import numpy as np

from simlab.packet import jit as compiler

ROOT = Path(compiler.__file__).parents[2]
NOT_MUTATED = (
    "layout and profile_layout (where words lie), lookahead (fetches memory ahead, changes no "
    "result), hashing._table (what compiled code holds is made at import), files, commands, plots "
    "and telemetry"
)
COMPILED = tuple(
    f"simlab.packet.{name}"
    for name in (
        "bitmap", "egress", "engine", "events", "hashing", "pause", "posting", "reaction",
        "receiver", "sender", "slots", "switching",
    )
)  # fmt: skip
SWAP: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}  # fmt: skip
MOST_SITES = 4096
SWITCHES = np.zeros(2 * MOST_SITES, dtype=np.int64)
_ADDRESS = SWITCHES.ctypes.data
_VIEW = memoryview(SWITCHES.data)


@numba.njit
def on(site: int) -> int:
    """Return 1 if the mutant of this site is the one that runs; note that it was reached."""
    switches = compiler._int_pointer(_ADDRESS)
    switches[MOST_SITES + site] = 1
    chosen: int = switches[site]
    return chosen


def on_interpreted(site: int) -> int:
    """Do the same in a module that is not compiled."""
    _VIEW[MOST_SITES + site] = 1
    return _VIEW[site]


def reached() -> list[int]:
    """Return the sites reached since the last call."""
    sites: list[int] = np.flatnonzero(SWITCHES[MOST_SITES:]).tolist()
    SWITCHES[MOST_SITES:] = 0
    return sites


def path_of(module: str) -> Path:
    """Return the file of a module."""
    return ROOT / f"{module.replace('.', '/')}.py"


@dataclass(frozen=True)
class Mutant:
    """One change at one place."""

    module: str  # its last name
    line: int
    text: str
    source: str  # of the line
    again: int  # how many of the same text are before it on the line

    @property
    def key(self) -> str:
        """Return what names it whatever moves above it."""
        again = f" ({self.again + 1})" if self.again else ""
        return f"{self.module}: {self.source}: {self.text}{again}"


class Sites(ast.NodeTransformer):
    """Replaces every constant and comparison by an expression that asks which mutant runs."""

    def __init__(self, module: str, text: str, mutants: list[Mutant]) -> None:
        self.module = module.rpartition(".")[2]
        self.lines = text.splitlines()
        self.mutants = mutants

    def _switch(self, line: int, text: str) -> ast.expr:
        source = self.lines[line - 1].strip()
        alike = (self.module, line, text)
        again = sum((one.module, one.line, one.text) == alike for one in self.mutants)
        self.mutants.append(Mutant(self.module, line, text, source, again))
        return ast.parse(f"mutant_on({len(self.mutants) - 1})", mode="eval").body

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is bool:
            switch = self._switch(node.lineno, f"{node.value} -> {not node.value}")
            same = ast.Eq() if node.value else ast.NotEq()
            return ast.Compare(switch, [same], [ast.Constant(0)])
        if not isinstance(node.value, int | float):
            return node
        switch = self._switch(node.lineno, f"{node.value} -> {node.value + 1}")
        return ast.BinOp(node, ast.Add(), switch)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        # zip(strict=True) looks whether the program is right; it is no part of the model.
        return node if node.arg == "strict" else self.generic_visit(node)

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


class _Compiled(Sites):
    """Instruments the functions of a module of the engine; constants are written into them."""

    def __init__(self, module: str, text: str, mutants: list[Mutant]) -> None:
        super().__init__(module, text, mutants)
        self.plain: dict[str, ast.expr] = {}  # constants of the module
        self.constants: dict[str, ast.expr] = {}  # those that its functions use

    def visit_Module(self, node: ast.Module) -> ast.AST:
        at_import = set()  # functions that make the tables which compiled code holds
        for part in node.body:
            if isinstance(part, ast.Assign):
                if isinstance(part.value, ast.Call):
                    at_import.add(ast.unparse(part.value.func))
                    continue
                (name,) = part.targets
                assert isinstance(name, ast.Name)
                self.plain[name.id] = part.value
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name not in at_import:
                part.body = [self.visit(statement) for statement in part.body]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or node.id not in self.plain:
            return node
        if node.id not in self.constants:
            self.constants[node.id] = self.visit(copy.deepcopy(self.plain[node.id]))
        return copy.deepcopy(self.constants[node.id])


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports instrumented modules instead of the real ones, with these names in them besides."""

    def __init__(self, trees: dict[str, ast.Module], names: dict[str, object]) -> None:
        self.trees = {name: ast.fix_missing_locations(tree) for name, tree in trees.items()}
        self.names = names

    def find_spec(
        self, name: str, _path: object, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in self.trees:
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, _spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self.names)
        exec(compile(self.trees[module.__name__], module.__name__, "exec"), module.__dict__)  # noqa: S102


def instrumented(
    modules: tuple[str, ...],
    transformer: Callable[[str, str, list[Mutant]], Sites],
    names: dict[str, object],
) -> list[Mutant]:
    """Have modules imported instrumented from now on; return their mutants, by site."""
    mutants: list[Mutant] = []
    trees = {}
    for module in modules:
        text = path_of(module).read_text()
        trees[module] = transformer(module, text, mutants).visit(ast.parse(text))
    if len(mutants) > MOST_SITES:
        raise ValueError(f"{len(mutants)} sites, room for {MOST_SITES}")
    sys.meta_path.insert(0, Loader(trees, names))
    return mutants


def instrument_compiled() -> list[Mutant]:
    """Have the engine imported instrumented from now on; return its mutants, by site."""
    compiler.entry = compiler.jit  # no cache on disk: addresses are this process's
    return instrumented(COMPILED, _Compiled, {"mutant_on": on})
