"""The model description of an FMU, `modelDescription.xml`, for FMI 2.0 and 3.0."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dalembert._version import __version__
from dalembert.fmu.variables import Layout, Variable

SOURCE = "model.c"


@dataclass(frozen=True)
class Facts:
    """What a description says beside the variables."""

    name: str
    identifier: str
    token: str
    method: str
    start: float
    stop: float
    step: float


def _head(facts: Facts, version: str) -> dict[str, str]:
    return {
        "fmiVersion": version, "modelName": facts.name, "generationTool": f"dalembert {__version__}",
        "description": f"{facts.name} by {facts.method}, step {facts.step!r}",
        "generationDateAndTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "variableNamingConvention": "flat",
    }  # fmt: skip


def _experiment(root: Element, facts: Facts) -> None:
    SubElement(root, "DefaultExperiment", startTime=repr(facts.start), stopTime=repr(facts.stop), stepSize=repr(facts.step))


def _text(root: Element) -> bytes:
    indent(root)
    return bytes(tostring(root, encoding="UTF-8", xml_declaration=True))


def _attributes(v: Variable, reference: int) -> dict[str, str]:
    out = {
        "name": v.name,
        "valueReference": str(reference),
        "causality": v.causality,
        "variability": v.variability,
        "description": v.description,
    }
    return {**out, "initial": v.initial} if v.initial else out


def _starts(v: Variable) -> bool:
    return v.initial == "exact" or v.causality == "input"


def second(facts: Facts, layout: Layout) -> bytes:
    """For FMI 2.0."""
    root = Element("fmiModelDescription", _head(facts, "2.0") | {"guid": facts.token, "numberOfEventIndicators": "0"})
    able = SubElement(
        root, "CoSimulation", modelIdentifier=facts.identifier, canHandleVariableCommunicationStepSize="true",
        canGetAndSetFMUstate="true", canSerializeFMUstate="true", canNotUseMemoryManagementFunctions="true",
    )  # fmt: skip
    SubElement(SubElement(able, "SourceFiles"), "File", name=SOURCE)
    _experiment(root, facts)
    variables, structure = SubElement(root, "ModelVariables"), SubElement(root, "ModelStructure")
    for i, v in enumerate(layout.variables):
        one = SubElement(variables, "ScalarVariable", _attributes(v, i))
        SubElement(one, "Real", {"start": repr(v.start)} if _starts(v) else {})
    for tag, chosen in (("Outputs", _outputs(layout)), ("InitialUnknowns", _calculated(layout))):
        rows = SubElement(structure, tag)
        for i in chosen:
            SubElement(rows, "Unknown", index=str(i + 1))
    return _text(root)


def third(facts: Facts, layout: Layout) -> bytes:
    """For FMI 3.0."""
    root = Element("fmiModelDescription", _head(facts, "3.0") | {"instantiationToken": facts.token})
    SubElement(
        root, "CoSimulation", modelIdentifier=facts.identifier, canHandleVariableCommunicationStepSize="true",
        canGetAndSetFMUState="true", canSerializeFMUState="true", fixedInternalStepSize=repr(facts.step),
    )  # fmt: skip
    _experiment(root, facts)
    variables, structure = SubElement(root, "ModelVariables"), SubElement(root, "ModelStructure")
    for i, v in enumerate(layout.variables):
        SubElement(variables, "Float64", _attributes(v, i) | ({"start": repr(v.start)} if _starts(v) else {}))
    for i in _outputs(layout):
        SubElement(structure, "Output", valueReference=str(i))
    for i in _calculated(layout):
        SubElement(structure, "InitialUnknown", valueReference=str(i))
    return _text(root)


def build(facts: Facts) -> bytes:
    """How the source of an FMU 3.0 is compiled, `buildDescription.xml`."""
    root = Element("fmiBuildDescription", fmiVersion="3.0")
    how = SubElement(root, "BuildConfiguration", modelIdentifier=facts.identifier)
    SubElement(SubElement(how, "SourceFileSet", language="C99"), "SourceFile", name=SOURCE)
    return _text(root)


def _outputs(layout: Layout) -> list[int]:
    return [i for i, v in enumerate(layout.variables) if v.causality == "output"]


def _calculated(layout: Layout) -> list[int]:
    return [i for i, v in enumerate(layout.variables) if v.initial == "calculated"]
