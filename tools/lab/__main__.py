"""`scripts/lab`: a lab of this machine that stays up until it is taken down."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tools.lab.client import Lab, LabError, start_keeper, why_not
from tools.lab.layout import Layout

DIRECTORY = Path("/var/tmp/perfrunner-lab")
EPILOG = """\
examples:
  scripts/lab up 3                      three hosts: lab1, lab2, lab3
  perfrunner doctor --cluster specs/clusters/lab.yaml
  ssh -i /var/tmp/perfrunner-lab/user_key -o UserKnownHostsFile=/var/tmp/perfrunner-lab/known_hosts root@10.98.0.1
  scripts/lab cut lab2                  pull its cables; heal puts them back
  scripts/lab cut lab2 --cable data     pull the one that clients and nodes use; SSH stays
  scripts/lab limit lab2 100            100 Mbit/s; `limit lab2 0` takes it off
  scripts/lab delay lab2 20 1           20 ms each way, 1 % of the frames lost; `delay lab2 0` takes it off
  scripts/lab clock lab2 3600           an hour ahead
  scripts/lab part lab1 lab2            they lose each other only; join puts it right
  scripts/lab power-off lab1; scripts/lab boot lab1
  scripts/lab down
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/lab",
        description="Several SSH hosts on this machine, in network namespaces. Needs root.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    up = verbs.add_parser("up", help="raise N hosts (3)")
    up.add_argument("count", nargs="?", type=int, default=3, metavar="N")
    verbs.add_parser("status", help="the hosts and whether they are on")
    verbs.add_parser("down", help="take everything away")
    for verb, text in (
        ("cut", "pull a host's cables"),
        ("heal", "put them back"),
        ("power-off", "pull a host's plug"),
        ("boot", "switch it on again"),
        ("crash", "end all that runs on it; boot switches it on again"),
        ("reboot", "pull its plug and switch it on again"),
        ("freeze", "stop its sshd without ending it"),
        ("thaw", "let it go on"),
    ):
        verbs.add_parser(verb, help=text).add_argument("host")
    for verb, text in (
        ("part", "two hosts lose each other, and nobody else"),
        ("join", "they find each other again"),
    ):
        pair = verbs.add_parser(verb, help=text)
        pair.add_argument("host")
        pair.add_argument("other")
    limit = verbs.add_parser("limit", help="the rate of a host's cables, Mbit/s; 0: none")
    limit.add_argument("host")
    limit.add_argument("rate", type=float)
    delay = verbs.add_parser(
        "delay", help="how long frames take, ms each way, and how many are lost, %%"
    )
    delay.add_argument("host")
    delay.add_argument("ms", type=float)
    delay.add_argument("loss", type=float, nargs="?", default=0.0)
    clock = verbs.add_parser(
        "clock", help="how far its clock is ahead, s; for what begins there from now on"
    )
    clock.add_argument("host")
    clock.add_argument("seconds", type=float)
    for verb in ("cut", "heal", "limit", "delay"):
        verbs.choices[verb].add_argument(
            "--cable", choices=["control", "data"], help="this one only (both)"
        )
    given = parser.parse_args()
    lab = Lab(Layout(DIRECTORY, 0))
    try:
        return _do(lab, given)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _do(lab: Lab, given: argparse.Namespace) -> int:
    if given.verb == "up":
        if reason := why_not():
            raise LabError(reason)
        _up(lab, given.count)
    elif given.verb == "down":
        lab.ask("down")
        while lab.layout.socket.exists():  # the keeper removes it last
            time.sleep(0.01)
    elif given.verb != "status":
        _change(lab, given)
    if given.verb in ("up", "status"):
        for name, host in lab.ask("status")["hosts"].items():
            addresses = f"{host['address']}  data {host['data_address']}"
            print(f"{name}  {addresses}  {'on' if host['on'] else 'off'}")
    return 0


def _change(lab: Lab, given: argparse.Namespace) -> None:
    """Carry out a command that changes one host or one pair of hosts."""
    if given.verb == "limit":
        if given.rate:
            lab.limit(given.host, given.rate, given.cable)
        else:
            lab.unlimited(given.host, given.cable)
    elif given.verb == "delay":
        if given.ms or given.loss:
            lab.delay(given.host, given.ms, loss_percent=given.loss, cable=given.cable)
        else:
            lab.unlimited(given.host, given.cable)
    elif given.verb in ("cut", "heal"):
        lab.ask(given.verb, host=given.host, cable=given.cable)
    elif given.verb == "clock":
        lab.set_clock(given.host, given.seconds)
    elif given.verb in ("part", "join"):
        lab.ask(given.verb, a=given.host, b=given.other)
    elif given.verb == "reboot":
        lab.power_off(given.host)
        lab.boot(given.host)
    else:
        lab.ask(given.verb.replace("-", "_"), host=given.host)


def _up(lab: Lab, count: int) -> None:
    try:
        lab.ask("status")
    except LabError:
        pass
    else:
        raise LabError("the lab is up already: scripts/lab down")
    keeper = start_keeper(lab.layout, count, tied=False)
    assert keeper.stdout is not None
    if keeper.stdout.readline().strip() != b"up":
        raise LabError(f"it did not come up: {lab.layout.log.read_text().strip()[-1000:]}")


if __name__ == "__main__":
    sys.exit(main())
