# Out-of-context timing of one block of build/rtl, in batch, run in the repository's root; `make ooc BLOCK=tlb` does it:
#   vivado -mode batch -nojournal -nolog -source fpga/tcl/ooc.tcl -tclargs block=tlb card=u55c clock_mhz=250
# Reports and checkpoints are under build/fpga/ooc/<card>/<block>/.

source [file join [file dirname [info script]] common.tcl]

set options [keywalk::options {block {} card u55c clock_mhz 250 strategy default any_version 0 rtl build/rtl out build/fpga} $argv]
dict with options {}
keywalk::check_version $any_version
keywalk::check_clock $clock_mhz
keywalk::directives $strategy
set card_file [file join fpga cards $card.toml]
if {[catch {keywalk::read_card $card_file} facts]} {
    keywalk::stop $facts
}
set manifest [file join $rtl manifest.json]
if {![file exists $manifest]} {
    keywalk::stop "$manifest is missing; `make rtl` generates it"
}
if {![file exists [file join $rtl $block.v]]} {
    set blocks {}
    foreach path [lsort [glob -directory $rtl *.v]] {
        lappend blocks [file rootname [file tail $path]]
    }
    keywalk::stop "there is no block `$block`; blocks are [join $blocks {, }]"
}
set part [dict get $facts part]
keywalk::check_part $part
set folder [file join $out ooc $card $block]
file mkdir $folder

set tcl [lsort [glob -directory [file dirname [info script]] *.tcl]]
set inputs [keywalk::inputs $options [concat [list $card_file $manifest] $tcl]]
set latest [keywalk::latest_checkpoint $folder {synthesised placed routed} $inputs]
if {$latest eq {}} {
    keywalk::step synthesise {
        read_verilog [glob -directory $rtl *.v]
        synth_design -top $block -part $part -mode out_of_context
        # The engine's top modules have `aclk`, their blocks have `clk`.
        set clock [get_ports -quiet {aclk clk}]
        if {[llength $clock] != 1} {
            error "block $block has [llength $clock] ports named aclk or clk; it needs one for its clock"
        }
        create_clock -name clock -period [expr {1000.0 / $clock_mhz}] $clock
        write_checkpoint -force [file join $folder synthesised.dcp]
    }
    set latest synthesised
} else {
    keywalk::step "go on after stage $latest" {
        open_checkpoint [file join $folder $latest.dcp]
    }
}
keywalk::implement $folder $latest $strategy
keywalk::step reports {
    report_timing_summary -file [file join $folder timing.rpt]
    report_utilization -hierarchical -file [file join $folder utilization.rpt]
}
keywalk::step timing { keywalk::check_timing }
