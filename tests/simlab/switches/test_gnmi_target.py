"""Our gNMI targets, asked by pygnmi: targets are proven before our client is proven on them."""

import asyncio
import json
import subprocess

import pytest

from simlab.switches.gnmi_face import GnmiFace
from simlab.switches.gnmi_target import GnmiFaults, GnmiTarget
from simlab.switches.own_environment import PYGNMI, NotInstalled, python
from simlab.switches.state import SwitchState

pytestmark = pytest.mark.lab_switch

SCRIPT = """
import json, sys
from pygnmi.client import gNMIclient, telemetryParser
port, user, word = int(sys.argv[1]), sys.argv[2], sys.argv[3]
base = "/interfaces/interface[name=Ethernet1/1]"
frames = base + "/ethernet/pfc/priorities/priority[index=3]/state/in-frames"
found = {}
with gNMIclient(("127.0.0.1", port), username=user, password=word, insecure=True) as client:
    found["models"] = [row["name"] for row in client.capabilities()["supported_models"]]
    answer = client.get(path=[frames], encoding="json")
    found["get"] = answer["notification"][0]["update"][0]["val"]
    answer = client.set(update=[(base + "/state/oper-status", "DOWN")], encoding="json_ietf")
    found["set"] = answer["response"][0]["op"]
    def ask(mode, **more):
        return {"subscription": [{"path": frames, "mode": "sample", "sample_interval": 50_000_000}],
                "mode": mode, "encoding": "json_ietf"}
    seen = []
    for message in client.subscribe2(subscribe=ask("once")):
        seen += [row["val"] for row in message.get("update", {}).get("update", [])]
    found["once"] = seen
    seen = []
    stream = client.subscribe2(subscribe=ask("stream"))
    for message in stream:
        seen += [row["val"] for row in message.get("update", {}).get("update", [])]
        if len(seen) >= 3:
            break
    found["stream"] = seen
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def interpreter():
    try:
        return python(PYGNMI)
    except (NotInstalled, subprocess.SubprocessError) as lack:
        pytest.skip(f"pygnmi cannot be installed: {lack}")


def ask(interpreter, target, user="ann", word="secret"):
    async def serve():
        port = await target.listen()
        process = await asyncio.create_subprocess_exec(
            str(interpreter), "-c", SCRIPT, str(port), user, word,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, error = await asyncio.wait_for(process.communicate(), 60)
        await target.close()
        return process.returncode, out.decode(), error.decode()

    return asyncio.run(serve())


def made(faults=None):
    state = SwitchState("leaf1", "eos", 4)
    state.add("pfc_rx", 1, 3, 4711)
    return GnmiTarget(GnmiFace(state), faults or GnmiFaults())


def test_pygnmi_reads_and_sets_our_target(interpreter):
    target = made(GnmiFaults(user=("ann", "secret")))
    code, out, error = ask(interpreter, target)
    assert code == 0, error
    found = json.loads(out.strip().splitlines()[-1])
    assert "openconfig-interfaces" in found["models"]
    assert int(found["get"]) == 4711
    assert found["set"] == "UPDATE"
    assert [int(value) for value in found["once"]] == [4711]
    assert [int(value) for value in found["stream"]] == [4711] * 3
    path = "/interfaces/interface[name=Ethernet1/1]/state/oper-status"
    assert target.face.extra[path] == "DOWN"


def test_pygnmi_with_a_wrong_password_is_refused(interpreter):
    code, _, error = ask(interpreter, made(GnmiFaults(user=("ann", "secret"))), word="guess")
    assert code != 0
    assert "authentication failed" in error
