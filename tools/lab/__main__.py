"""`scripts/lab`: raise a lab on this machine, change it, and take it down."""

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
  scripts/lab cut lab2                  unplug its cables; heal plugs them in again
  scripts/lab cut lab2 --cable data     unplug the cable between clients and nodes; SSH still works
  scripts/lab limit lab2 100            limit it to 100 Mbit/s; `limit lab2 0` removes the limit
  scripts/lab delay lab2 20 1           20 ms and 1 % loss in each direction; `delay lab2 0` removes both
  scripts/lab clock lab2 3600           set its clock an hour ahead
  scripts/lab part lab1 lab2            disconnect the two from each other only; join connects them again
  scripts/lab power-off lab1; scripts/lab boot lab1
  scripts/lab down
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/lab",
        description="Run several SSH hosts on this machine, in network namespaces. Needs root.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    up = verbs.add_parser("up", help="start N hosts (default: 3)")
    up.add_argument("count", nargs="?", type=int, default=3, metavar="N")
    verbs.add_parser("status", help="list the hosts, their addresses, and whether they are on")
    verbs.add_parser("down", help="remove everything")
    for verb, text in (
        ("cut", "unplug the cables of a host"),
        ("heal", "plug the cables of a host in again"),
        ("power-off", "cut the power of a host"),
        ("boot", "start a host again, with its disk"),
        ("crash", "kill all processes of a host; boot starts it again"),
        ("reboot", "cut the power of a host and start it again"),
        ("freeze", "stop the sshd of a host; its kernel still answers"),
        ("thaw", "let the sshd of a host continue"),
    ):
        verbs.add_parser(verb, help=text).add_argument("host")
    for verb, text in (
        ("part", "disconnect two hosts from each other only"),
        ("join", "connect two hosts again after part"),
    ):
        pair = verbs.add_parser(verb, help=text)
        pair.add_argument("host")
        pair.add_argument("other")
    limit = verbs.add_parser(
        "limit", help="limit the cables of a host to a rate in Mbit/s; 0: no limit"
    )
    limit.add_argument("host")
    limit.add_argument("rate", type=float)
    delay = verbs.add_parser(
        "delay", help="delay frames of a host, in ms each way, and lose a share of them, in %%"
    )
    delay.add_argument("host")
    delay.add_argument("ms", type=float)
    delay.add_argument("loss", type=float, nargs="?", default=0.0)
    clock = verbs.add_parser(
        "clock",
        help="set the clock of a host ahead by seconds, for programs that start from now on",
    )
    clock.add_argument("host")
    clock.add_argument("seconds", type=float)
    for verb in ("cut", "heal", "limit", "delay"):
        verbs.choices[verb].add_argument(
            "--cable", choices=["control", "data"], help="only this cable (default: both)"
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
        raise LabError("the lab is running already: scripts/lab down removes it")
    keeper = start_keeper(lab.layout, count, tied=False)
    assert keeper.stdout is not None
    if keeper.stdout.readline().strip() != b"up":
        raise LabError(f"the lab did not start: {lab.layout.log.read_text().strip()[-1000:]}")


if __name__ == "__main__":
    sys.exit(main())
