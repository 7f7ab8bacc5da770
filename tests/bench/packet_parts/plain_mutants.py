"""Mutants of the modules that are not compiled: defaults, limits, layout, topologies, workloads.

Much of what these modules say is evaluated when they are imported, long before a mutant is chosen.
It is made to be evaluated when it is used: a constant of a module becomes a function, the default
of an argument or of a field an expression of the call.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import field
from typing import Any

from packet_parts.mutants import Mutant, Sites, instrumented, on_interpreted, path_of

PACKET = (
    "parameters", "compat", "limits", "traffic", "topology", "routing", "workloads", "collectives",
    "regions", "build", "build_ports", "build_messages", "simulation", "interventions",
    "overrides", "picoseconds", "results",
)  # fmt: skip
PLAIN = ("collectors.model.dcqcn", *(f"simlab.packet.{name}" for name in PACKET))
UNSET = object()


def late(module: str, name: str) -> Any:
    """Return a constant of a module as it is now: what a test has set, or evaluated."""
    names = sys.modules[module].__dict__
    if name in names:
        return names[name]
    if f"late_{name}" not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return names[f"late_{name}"]()


def forget() -> None:
    """Have constants evaluated again that a test had set and set back."""
    for module in PLAIN:
        names = sys.modules[module].__dict__ if module in sys.modules else {}
        for name in [name for name in names if f"late_{name}" in names]:
            del names[name]


def _is_late(value: ast.expr | None) -> bool:
    """Tell whether an expression holds a constant, or makes a record, which may hold some."""
    for node in ast.walk(value) if value is not None else ():
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id not in ("field", "TypeVar")
    return False


def _constants(module: str) -> dict[str, ast.expr]:
    """Return the constants of a module that are to be evaluated when they are used."""
    found: dict[str, ast.expr] = {}
    for part in ast.parse(path_of(module).read_text()).body:
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            name, value = part.targets[0].id, part.value
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.value:
            name, value = part.target.id, part.value
        else:
            continue
        if _is_late(value):
            found[name] = value
    return found


class _Interpreted(Sites):
    """Instruments functions, methods, defaults and the constants of a module."""

    def __init__(self, module: str, text: str, mutants: list[Mutant]) -> None:
        super().__init__(module, text, mutants)
        self.path = module
        self.homes = dict.fromkeys(_constants(module), module)  # constant -> module

    def visit_Module(self, node: ast.Module) -> ast.AST:  # noqa: N802  as ast calls it
        body: list[ast.stmt] = []
        for part in node.body:
            if isinstance(part, ast.ImportFrom) and part.module in PLAIN:
                theirs = _constants(part.module)
                for one in part.names:
                    if one.name in theirs:
                        self.homes[one.name] = part.module
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                body.append(self.visit(part))
            elif isinstance(part, ast.Assign | ast.AnnAssign) and self._late_target(part):
                body.append(self._function(part))
            else:
                body.append(part)
        node.body = [*body, *ast.parse("def __getattr__(name): return late(__name__, name)").body]
        return node

    def _late_target(self, part: ast.Assign | ast.AnnAssign) -> bool:
        target = part.targets[0] if isinstance(part, ast.Assign) else part.target
        return isinstance(target, ast.Name) and self.homes.get(target.id) == self.path

    def _function(self, part: ast.Assign | ast.AnnAssign) -> ast.stmt:
        target = part.targets[0] if isinstance(part, ast.Assign) else part.target
        assert isinstance(target, ast.Name)
        assert part.value is not None
        made = ast.parse(f"def late_{target.id}():\n return 0").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.body = [ast.Return(self.visit(part.value))]
        return made

    def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802  as ast calls it
        home = self.homes.get(node.id)
        if home is None or not isinstance(node.ctx, ast.Load):
            return node
        return ast.parse(f"late({home!r}, {node.id!r})", mode="eval").body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # noqa: N802  as ast calls it
        first: list[ast.stmt] = []
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        named = positional[len(positional) - len(arguments.defaults) :]
        for names, defaults in (
            (named, arguments.defaults), (arguments.kwonlyargs, arguments.kw_defaults),
        ):  # fmt: skip
            for place, (one, default) in enumerate(zip(names, defaults, strict=True)):
                if default is not None and self._has_late(default):
                    first.append(self._given(one.arg, default))
                    defaults[place] = ast.Name("UNSET", ast.Load())
        node.body = first + [self.visit(statement) for statement in node.body]
        return node

    def _given(self, argument: str, default: ast.expr) -> ast.stmt:
        """Return the statement that gives an argument its default when the function is called."""
        statement = ast.parse(f"if {argument} is UNSET:\n {argument} = 0").body[0]
        assert isinstance(statement, ast.If)
        assert isinstance(statement.body[0], ast.Assign)
        statement.body[0].value = self.visit(default)
        return statement

    def _has_late(self, value: ast.expr) -> bool:
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        return _is_late(value) or bool(names & self.homes.keys())

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # noqa: N802  as ast calls it
        for place, part in enumerate(node.body):
            if isinstance(part, ast.FunctionDef):
                node.body[place] = self.visit(part)
            elif isinstance(part, ast.AnnAssign) and part.value and self._has_late(part.value):
                made = ast.parse("late_field(default_factory=lambda: 0)", mode="eval").body
                assert isinstance(made, ast.Call)
                assert isinstance(made.keywords[0].value, ast.Lambda)
                made.keywords[0].value.body = self.visit(part.value)
                part.value = made
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:  # noqa: N802  as ast calls it
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


def instrument_plain() -> list[Mutant]:
    """Have these modules imported instrumented from now on; return their mutants, by site."""
    names = {"mutant_on": on_interpreted, "late": late, "UNSET": UNSET, "late_field": field}
    return instrumented(PLAIN, _Interpreted, names)
