# shellcheck shell=sh
# after: machine-holder.sh
# $1 what stands for the whole machine.
machine_holder "$1"
