# Thin: every target calls the program that does the work. `make` sets up what is missing, generates the default
# configuration, lints it and runs the real driver's tables through the generated hardware. `make test` runs all tests.

CARGO ?= cargo
RTL   := build/rtl

-include build/tools.mk
VERILATOR ?= verilator
PYTHON ?= python3
# Random scenarios that the witness judges, for each of three engines.
WITNESS_SEEDS ?= 200
# Seconds for each target of the fuzzer.
FUZZ_SECONDS ?= 30

.PHONY: all setup setup-synth setup-formal setup-bfm rtl shell card lint vectors test check docs bench soak coverage test-slurm witness fuzz
.PHONY: synth route figures formal setup-route test-bfm mutants mutants-sample mutants-model fpga-check bitstream ooc clean

all: lint vectors

# Installs Verilator and yosys where they are missing; see verify/tools/setup.sh.
setup:
	@verify/tools/setup.sh

# Installs the yosys that the synthesis figures are given for besides.
setup-synth:
	@verify/tools/setup.sh --synth

# Installs yosys, smtbmc and the solver that proofs are made with.
setup-formal:
	@verify/tools/setup.sh --formal

# Installs yosys and nextpnr, which place and route blocks.
setup-route:
	@verify/tools/setup.sh --route

# Installs what mutates the golden model.
setup-mutants:
	@verify/tools/setup.sh --mutants

# Installs what the tests with a third party's bus models need.
setup-bfm:
	@verify/tools/setup.sh --bfm

# A second make, so that build/tools.mk is read after setup has written it.
rtl shell card lint vectors test check docs bench soak coverage test-slurm witness fuzz mutants mutants-sample: setup
	@$(MAKE) --no-print-directory do-$@

synth figures fpga-check: setup-synth
	@$(MAKE) --no-print-directory do-$@

route: setup-route
	@$(MAKE) --no-print-directory do-$@

formal: setup-formal
	@$(MAKE) --no-print-directory do-$@

test-bfm: setup-bfm
	@$(MAKE) --no-print-directory do-$@

mutants-model: setup-mutants
	@$(MAKE) --no-print-directory do-$@

.PHONY: do-rtl do-shell do-card do-lint do-vectors do-test do-check do-docs do-bench do-soak do-coverage do-test-slurm do-witness do-fuzz
.PHONY: do-synth do-route do-figures do-formal do-test-bfm do-mutants do-mutants-sample do-mutants-model setup-mutants do-fpga-check

# The Verilog of the default configuration.
do-rtl:
	$(CARGO) run --release -p keywalk-gen -- rtl --out $(RTL)

do-lint: do-rtl do-shell do-card
	$(VERILATOR) --lint-only -Wall --top-module keywalk -F $(RTL)/keywalk.f
	$(VERILATOR) --lint-only -Wall --top-module keywalk_mover -F $(RTL)/keywalk_mover.f
	$(VERILATOR) --lint-only -Wall --top-module keywalk_probe -F $(RTL)/keywalk_probe.f
	$(VERILATOR) --lint-only -Wall --top-module keywalk_shell -F build/shell/keywalk_shell.f
	$(VERILATOR) --lint-only -Wall --top-module keywalk_card -F build/card/keywalk_card.f

# The shell between the engine and a card's PCIe IP.
do-shell:
	$(CARGO) run --release -p keywalk-gen -- shell --out build/shell

# Engine, data mover and shell in one top module, for a card.
do-card:
	$(CARGO) run --release -p keywalk-gen -- card --out build/card

# The tables of verify/vectors through the generated hardware under Verilator.
do-vectors:
	$(CARGO) run --release -p keywalk-verify -- vectors --dut rtl --latency 40 --reorder verify/vectors

do-test:
	$(CARGO) test --workspace --release

# What every commit passes: format, lints, and the tests that need no simulation.
do-check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings
	$(CARGO) test --release -p keywalk-contract -p keywalk-model -p keywalk-image

# Small engine, data mover, shells of three pairs of widths and small card under Icarus Verilog with cocotbext-axi's bus models at
# their ports, and the faults that this must find.
BFM_SHELL := $(CARGO) run --release -p keywalk-gen -- shell
do-test-bfm:
	$(CARGO) run --release -p keywalk-gen -- rtl --preset small --out build/bfm/rtl
	$(CARGO) run --release -p keywalk-gen -- card --preset small_card --out build/bfm/card
	$(BFM_SHELL) --engine-data-bits 256 --pcie-data-bits 256 --out build/bfm/shells/shell_same
	$(BFM_SHELL) --engine-data-bits 128 --pcie-data-bits 512 --out build/bfm/shells/shell_wider
	$(BFM_SHELL) --engine-data-bits 512 --pcie-data-bits 256 --out build/bfm/shells/shell_narrower
	build/venv/bin/python3 verify/bfm/run.py --rtl build/bfm/rtl
	build/venv/bin/python3 verify/bfm/run.py --rtl build/bfm/rtl --planted

# Register map, C header and Rust constants.
do-docs:
	$(CARGO) run --release -p keywalk-gen -- docs --out build/docs

# Every figure of the engine in clock cycles, against its target.
do-bench:
	$(CARGO) run --release -p keywalk-verify -- bench --json build/bench.json

# Random cases against the golden model, for SOAK_SECONDS.
SOAK_SECONDS ?= 60
do-soak:
	mkdir -p build
	$(CARGO) run --release -p keywalk-verify -- soak --time $(SOAK_SECONDS) --json build/soak.json

# Always the same cases: every bin of the functional coverage that can be filled must be, and in the small engine,
# in which Verilator counts, 95 % of the lines of each module must be covered or have a reason.
COVERAGE_SEEDS ?= 1500
COVERAGE_RTL_SEEDS ?= 40
COVERAGE := $(CARGO) run --release -p keywalk-verify --features coverage --
do-coverage:
	mkdir -p build
	$(COVERAGE) soak --seeds $(COVERAGE_SEEDS) --json build/coverage-run.json
	$(COVERAGE) soak --preset small_covered --seeds $(COVERAGE_RTL_SEEDS) --json build/coverage-rtl.json
	$(COVERAGE) coverage build/coverage-run.json build/coverage-rtl.json --html build/coverage.html

# The Slurm scripts, under a Slurm of this machine's own; as root.
do-test-slurm:
	$(CARGO) build --release -p keywalk-verify
	verify/slurm/test.sh --install

# Area, logic depth and an estimate of the delay of the default configuration, per block.
do-synth: do-rtl
	$(CARGO) run --release -p keywalk-verify -- synth $(RTL) --json build/synth.json

# The routed frequency of each block on an open device, against the recorded ones: a proxy, see `keywalk-verify route --help`.
do-route: do-rtl
	$(CARGO) run --release -p keywalk-verify -- route $(RTL) --json build/route.json

# The tables and curves of README.md. A figure that misses its target is in them, and does not stop this.
do-figures: do-rtl
	-$(CARGO) run --release -p keywalk-verify -- bench --json build/bench.json --out docs/bench --readme README.md
	-$(CARGO) run --release -p keywalk-verify -- synth $(RTL) --json build/synth.json --readme README.md

# The independent witness: a second reading of the table formats, on the vectors and on what the RTL answers on random
# tables. A scenario that the RTL does not finish leaves the witness a file that ends too early, which it refuses.
WITNESS := $(PYTHON) -B verify/witness/witness.py
SCENARIO := $(CARGO) run --release -p keywalk-verify -- scenario --out - --seeds $(WITNESS_SEEDS)
do-witness:
	$(WITNESS) vectors verify/vectors
	$(SCENARIO) --preset small --latency 1 | $(WITNESS) answers -
	$(SCENARIO) --preset small_ordered --latency 40 | $(WITNESS) answers -
	$(SCENARIO) --preset default --latency 250 | $(WITNESS) answers -

# libFuzzer on everything that reads text of users. `make fuzz FUZZ_TARGETS=vector` takes some targets alone.
do-fuzz:
	@verify/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)
# Proofs of properties of the small configuration, of the queues of a card and of the shell, and the faults that they must find.
do-formal: do-shell
	$(CARGO) run --release -p keywalk-gen -- rtl --preset small --out build/formal/rtl
	$(CARGO) run --release -p keywalk-verify -- formal --json build/formal/proofs.json
	$(CARGO) run --release -p keywalk-verify -- formal --planted --json build/formal/planted.json
	$(CARGO) run --release -p keywalk-gen -- card --preset small_card --out build/formal/card
	$(CARGO) run --release -p keywalk-verify -- formal build/formal/card --only queue --json build/formal/card.json
	$(CARGO) run --release -p keywalk-verify -- formal build/shell --proofs fpga/formal --json build/formal/shell.json
	$(CARGO) run --release -p keywalk-verify -- formal build/shell --proofs fpga/formal --planted

# Faults in the Verilog of the small engine, which the tests must find; a sample is what continuous integration has time for.
MUTANTS := $(CARGO) run --release -p keywalk-verify --no-default-features --features mutants -- mutants
MUTANTS_SAMPLE ?= 30
do-mutants:
	mkdir -p build
	$(MUTANTS) --json build/mutants.json

do-mutants-sample:
	mkdir -p build
	$(MUTANTS) --sample $(MUTANTS_SAMPLE) --json build/mutants-sample.json

# Faults in the golden model, which its own tests must find; one that makes a test run for ever counts as found (status 3). What
# survives for a reason is in .cargo/mutants.toml. What was found is not tried again until `rm -r build/mutants-model`.
do-mutants-model:
	mkdir -p build/mutants-model
	PATH="$(CURDIR)/build/cargo/bin:$$PATH" env -u CARGO_TARGET_DIR $(CARGO) mutants -p keywalk-model --iterate --output build/mutants-model || [ $$? = 3 ]

# Scripts, cards and constraints of the FPGA flow under plain Tcl, and the faults that this must find. Runs no Vivado.
do-fpga-check: do-rtl do-card
	tclsh fpga/check/check.tcl json=build/fpga-check.json
	tclsh fpga/check/planted.tcl json=build/fpga-planted.json
	$(CARGO) run --release -p keywalk-verify -- fit build/card --json build/fit.json

# With Vivado: a card's bitstream and flash image under build/fpga/<card>/; the timing of one block by itself. Wrong options are
# refused first, then a missing Vivado. ANY_VERSION=1 tries a Vivado that the scripts were not written for.
CLOCK_MHZ ?= 250
STRATEGY ?= default
ANY_VERSION ?= 0
vivado_options = clock_mhz='$(CLOCK_MHZ)' strategy='$(STRATEGY)' any_version='$(ANY_VERSION)' $(if $(CARD),card='$(CARD)')
bitstream:
	@fpga/vivado.sh --check bitstream $(vivado_options)
	@$(MAKE) --no-print-directory do-card
	fpga/vivado.sh bitstream $(vivado_options)

ooc:
	@fpga/vivado.sh --check ooc $(if $(BLOCK),block='$(BLOCK)') $(vivado_options)
	@$(MAKE) --no-print-directory do-rtl
	fpga/vivado.sh ooc block='$(BLOCK)' $(vivado_options)

clean:
	rm -rf build
	$(CARGO) clean
