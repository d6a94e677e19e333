#!/usr/bin/env bash
# Runs a script of fpga/tcl under Vivado in batch: `fpga/vivado.sh bitstream card=u55c clock_mhz=250`. With `--check` in front it
# looks at the options and for Vivado, and runs nothing. VIVADO names the program where it is not on the path.
#
# Exit codes: 0 done, 1 a step failed (its reason is the last line that begins with `keywalk:`), 2 wrong usage, 3 there is no Vivado.
set -euo pipefail
cd "$(dirname "$0")/.."

# Ends for wrong usage.
refuse() {
    printf 'fpga: %s\n' "$@" >&2
    exit 2
}

# Words as a list for a person.
listed() { echo "$*" | sed 's/ /, /g'; }

# Text in the braces of a variable of common.tcl, without what stands in further braces.
variable() {
    awk -v start="^ *variable $1 [{]" '
        !depth && $0 ~ start { sub(start, ""); depth = 1 }
        depth {
            for (i = 1; i <= length($0); i++) {
                letter = substr($0, i, 1)
                if (letter == "{") depth++
                else if (letter == "}") { if (--depth == 0) exit }
                else if (depth == 1) printf "%s", letter
            }
            printf " "
        }' fpga/tcl/common.tcl
}

# Ends unless $2, the value of option $1, is among the other words.
among() {
    local name=$1 value=$2 legal
    shift 2
    for legal in "$@"; do
        if [ "$value" = "$legal" ]; then return; fi
    done
    refuse "$name is \`$value\`; legal are $(listed "$@")"
}

only_check=
if [ "${1:-}" = --check ]; then
    only_check=1
    shift
fi
case "${1:-}" in
    bitstream | ooc) script=$1 && shift ;;
    *) refuse "usage: fpga/vivado.sh [--check] bitstream|ooc name=value..." ;;
esac

# What can be seen without Vivado, before the user waits for anything; the scripts look again.
# The names are every second word of the script's own line with its options.
names=$(sed -nE 's/^set options \[keywalk::options \{(.*)\} \$argv\]$/\1/p' "fpga/tcl/$script.tcl" | xargs -n 2 sh -c 'echo "$0"')
cards=$(export LC_ALL=C; cd fpga/cards && printf '%s\n' *.toml | sed 's/\.toml$//')
given=' '
for argument in "$@"; do
    name=${argument%%=*}
    value=${argument#*=}
    # shellcheck disable=SC2086 # lists of words
    case "$argument" in
        *=*) among "an option of $script" "$name" $names ;;
        *) refuse "argument \`$argument\` is not of the form name=value; legal names are $(listed $names)" ;;
    esac
    given="$given$name "
    # shellcheck disable=SC2046,SC2086 # lists of words
    case "$name" in
        card) among 'card (CARD of make)' "$value" $cards ;;
        strategy) among 'strategy (STRATEGY of make)' "$value" $(variable strategies) ;;
        any_version) among 'any_version (ANY_VERSION of make)' "$value" 0 1 ;;
        clock_mhz)
            read -r slowest fastest <<<"$(variable clock_mhz)"
            if ! [[ $value =~ ^[1-9][0-9]{1,2}$ ]] || ((value < slowest || value > fastest)); then
                refuse "clock_mhz (CLOCK_MHZ of make) is \`$value\`; legal is a whole number from $slowest to $fastest"
            fi
            ;;
        block)
            # Which queues there are follows from the configuration: ooc.tcl knows.
            [[ $value =~ ^(fifo_[0-9]+x|free_list_)[0-9]+$ ]] || among 'block (BLOCK of make)' "$value" $(variable blocks)
            ;;
    esac
done
# shellcheck disable=SC2086 # a list of words
if [ "$script" = bitstream ] && [[ $given != *' card '* ]]; then refuse "there is no card=; cards are $(listed $cards)"; fi
# shellcheck disable=SC2046 # a list of words
if [ "$script" = ooc ] && [[ $given != *' block '* ]]; then refuse "there is no block=; blocks are $(listed $(variable blocks))"; fi

vivado=${VIVADO:-vivado}
if ! command -v "$vivado" >/dev/null 2>&1; then
    # shellcheck disable=SC2046 # a list of words
    cat >&2 <<EOT
fpga: there is no Vivado: \`$vivado\` is not a program on the path. Install Vivado with the device family of the card (UltraScale+,
fpga: Alveo) and its PCIe IP, source its settings64.sh, or set VIVADO to the program. The scripts were written for
fpga: Vivado $(listed $(variable versions)); none has run them yet. \`make fpga-check\` needs no Vivado.
EOT
    exit 3
fi
if [ -n "$only_check" ]; then exit 0; fi
mkdir -p build/fpga
"$vivado" -mode batch -nojournal -log build/fpga/vivado.log -source "fpga/tcl/$script.tcl" -tclargs "$@"
