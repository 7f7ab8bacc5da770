"""The report as one HTML page that needs nothing from outside: for tickets, mails, archives."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from collectors.model.entities import display
from collectors.model.printable import printable
from tuner.advice.words import clock, effect, observed, value
from tuner.diagnosis.blind import blind_spots
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_tree import pause_trees
from tuner.report.content import fabric_picture, finding_plots, heat_maps

if TYPE_CHECKING:
    from tuner.advice.recommendation import Recommendation
    from tuner.diagnosis.finding import Diagnosis
    from tuner.fabric.graph import Fabric
    from tuner.store.window import Window


@dataclass(frozen=True)
class Report:
    """Everything that a page is made of. source: where the window came from."""

    window: Window
    fabric: Fabric
    diagnosis: Diagnosis
    recommendations: tuple[Recommendation, ...]
    source: str
    made_by: str


def page(report: Report) -> str:
    """Return the HTML text. What devices say of themselves is escaped, whatever it holds,
    and steers no terminal that the page is read in.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    window, diagnosis = report.window, report.diagnosis
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "place": display,
        "effect": effect,
        "clock": clock,
        "observed": observed,
    }
    environment.globals["value"] = value
    template = environment.from_string(_template())
    flows = pfc_flows(window, report.fabric)
    picture, left_out = fabric_picture(report.fabric, diagnosis, flows, window)
    cures: dict[str, list[Recommendation]] = {}
    for recommendation in report.recommendations:
        for finding in recommendation.because:
            cures.setdefault(finding, []).append(recommendation)
    text = template.render(
        source=report.source,
        made_by=report.made_by,
        agents=window.agents,
        until_ns=window.until_ns if window.until_ns < 1 << 61 else 0,
        findings=[
            (
                finding,
                cures.get(finding.id, []),
                [Markup(one) for one in finding_plots(window, finding)],  # noqa: S704  escaped there
            )
            for finding in diagnosis.findings
        ],
        recommendations=report.recommendations,
        blind=blind_spots(diagnosis.verdicts),
        topology=Markup(picture),  # noqa: S704  svg.py escapes all text
        left_out=left_out,
        heat_maps=[(title, Markup(drawn)) for title, drawn in heat_maps(window)],  # noqa: S704
        trees=pause_trees(flows),
        ports=len(report.fabric.ports()),
        cables=len(report.fabric.links()),
        conflicts=[str(conflict) for conflict in report.fabric.conflicts],
    )
    return printable(text, keep="\n")


def _template() -> str:
    return resources.files("tuner.report").joinpath("page.html.j2").read_text(encoding="utf-8")
