#!/usr/bin/env bash
# Runs a script of fpga/tcl under Vivado in batch: `fpga/vivado.sh bitstream card=u55c clock_mhz=250`. `fpga/vivado.sh --check`
# only looks for Vivado. VIVADO names the program where it is not on the path.
#
# Exit codes: 0 done, 1 a step failed (its reason is the last line that begins with `keywalk:`), 2 wrong usage, 3 there is no Vivado.
set -euo pipefail
cd "$(dirname "$0")/.."

vivado=${VIVADO:-vivado}
if ! command -v "$vivado" >/dev/null 2>&1; then
    cat >&2 <<EOT
fpga: there is no Vivado: \`$vivado\` is not a program on the path. Install Vivado with the device family of the card (UltraScale+,
fpga: Alveo) and its PCIe IP, source its settings64.sh, or set VIVADO to the program. The scripts were written for
fpga: Vivado $(sed -nE 's/^ *variable versions \{(.*)\}$/\1/p' fpga/tcl/common.tcl | sed 's/ /, /g'); none has run them yet. \`make fpga-check\` needs no Vivado.
EOT
    exit 3
fi
case "${1:-}" in
    --check) exit 0 ;;
    bitstream | ooc) script=$1 && shift ;;
    *)
        echo "fpga: usage: fpga/vivado.sh --check | bitstream name=value... | ooc name=value..." >&2
        exit 2
        ;;
esac
mkdir -p build/fpga
"$vivado" -mode batch -nojournal -log build/fpga/vivado.log -source "fpga/tcl/$script.tcl" -tclargs "$@"
