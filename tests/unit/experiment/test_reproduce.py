from __future__ import annotations

import subprocess
from pathlib import Path

from perfrunner.experiment.trial.reproduce import PADDING_NAME, ScriptRecorder


def recorder(tmp_path: Path, ssh: str | None = None, tools: str = "/art/abc") -> ScriptRecorder:
    made = ScriptRecorder("a title")
    made.add_host(
        "kv-1",
        ssh=ssh,
        artifact="/art/abc",
        tools=tools,
        work={"/w/runs/r/t": "", "/w/runs/r/secret": "/secret"},
        script_work=str(tmp_path / "again"),
    )
    return made


def test_what_belonged_to_the_run_becomes_a_variable(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    made.start("kv-1", "engine", ["/art/abc/bin/kv_engine", "--port=0"])
    made.engine_ready("kv-1", "engine", port=41234, pid=77)
    made.run(
        "kv-1",
        [
            "/art/abc/bin/kvctl",
            "--port=41234",
            "--pid=77",
            "--password-file=/w/runs/r/secret/password",
        ],
    )
    script = made.script()
    assert '"$ARTIFACT_kv_1"/bin/kvctl --port="$PORT_engine" --pid="$PID_engine"' in script
    assert '--password-file="$WORK_kv_1/secret"/password' in script
    assert "41234" not in script
    assert "/w/runs" not in script


def test_the_script_is_valid_shell_whatever_the_arguments_hold(tmp_path: Path) -> None:
    made = recorder(tmp_path, ssh="ssh -p 22 u@h")
    made.start(
        "kv-1",
        "engine",
        ["x", "it's", 'a "quote"', "$HOME", "a b"],
        {"A": "v w", PADDING_NAME: "000"},
    )
    made.engine_ready("kv-1", "engine", port=1, pid=2)
    made.pause(0.5)
    made.stop("kv-1", "engine")
    checked = subprocess.run(
        ["bash", "-n"], input=made.script(), text=True, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_arguments_arrive_as_they_were(tmp_path: Path) -> None:
    words = ["it's", 'a "quote"', "$HOME", "a  b", "*", "\\"]
    made = recorder(tmp_path)
    made.run("kv-1", ["printf", "%s\\n", *words], output="said")
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        ["bash", "-c", made.script()],
        env={"PATH": "/usr/bin:/bin", "OUT": str(out)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (out / "said").read_text().splitlines() == words


def test_the_padding_is_written_short_and_comes_out_long(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    made.start("kv-1", "shown", ["printenv", PADDING_NAME], {PADDING_NAME: "0" * 3000})
    made.wait("shown")
    script = made.script()
    assert len(script) < 3000
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(
        ["bash", "-c", script], env={"PATH": "/usr/bin:/bin", "OUT": str(out)}, check=True
    )
    assert (out / "shown.out").read_text().strip() == "0" * 3000


def test_tools_of_another_build_are_a_variable_of_their_own(tmp_path: Path) -> None:
    made = recorder(tmp_path, tools="/art/tools")
    made.run("kv-1", ["/art/tools/bin/kvctl", "stat"])
    made.run("kv-1", ["/art/abc/bin/kv_engine", "--version"])
    script = made.script()
    assert "TOOLS_kv_1=${TOOLS_kv_1:-/art/tools}" in script
    assert '"$TOOLS_kv_1"/bin/kvctl stat' in script
    assert '"$ARTIFACT_kv_1"/bin/kv_engine --version' in script
    assert "TOOLS" not in recorder(tmp_path).script().replace("ARTIFACT_* and TOOLS_*", "")
    subprocess.run(["bash", "-n", "-c", script], check=True)


def test_an_engine_that_is_killed_is_not_stopped_again(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    for name in ("one", "two"):
        made.start("kv-1", name, ["sh", "-c", f"echo 1 > $0/{name}.port; sleep 60", "/w/runs/r/t"])
        made.engine_ready("kv-1", name, port=1, pid=2)
    made.wait_for_file("kv-1", "/w/runs/r/t/one.port")
    made.kill("kv-1", "one")
    made.stop("kv-1", "two")
    script = made.script()
    traps = [line for line in script.splitlines() if line.startswith("trap")]
    assert traps == [
        "trap 'stop_one' EXIT", "trap 'stop_two; stop_one' EXIT", "trap 'stop_two' EXIT", "trap - EXIT",
    ]  # fmt: skip
    done = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
