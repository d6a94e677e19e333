# From the Verilog of build/card to a bitstream and a flash image of a card, in batch:
#   vivado -mode batch -nojournal -nolog -source fpga/tcl/bitstream.tcl -tclargs card=u55c clock_mhz=250 strategy=default
# run in the repository's root; `make bitstream CARD=u55c` does it. Results are under build/fpga/<card>/. Stages that have a
# checkpoint of the same inputs are not run again.

source [file join [file dirname [info script]] common.tcl]
source [file join [file dirname [info script]] block_design.tcl]

set options [keywalk::options {card {} clock_mhz 250 strategy default any_version 0 design build/card out build/fpga} $argv]
dict with options {}
keywalk::check_version $any_version
keywalk::check_clock $clock_mhz
keywalk::directives $strategy
set card_file [file join fpga cards $card.toml]
if {[catch {keywalk::read_card $card_file} facts]} {
    keywalk::stop $facts
}
set xdc [file join constraints $card.xdc]
set crossings [file join $design keywalk_shell.tcl]
set manifest [file join $design manifest.json]
foreach path [list $xdc $crossings $manifest] {
    if {![file exists $path]} {
        keywalk::stop "$path is missing; `make card` generates Verilog and crossings, constraints/ has a file per card"
    }
}
set part [dict get $facts part]
keywalk::check_part $part
set folder [file join $out $card]
file mkdir $folder

set tcl [lsort [glob -directory [file dirname [info script]] *.tcl]]
set inputs [keywalk::inputs $options [concat [list $card_file $xdc $manifest] $tcl]]
set latest [keywalk::latest_checkpoint $folder {synthesised placed routed} $inputs]
# A run that fails leaves no bitstream of an earlier one behind.
set bit [file join $folder keywalk_$card.bit]
set image [file join $folder keywalk_$card.mcs]
file delete $bit $image

if {$latest eq {}} {
    keywalk::step project {
        create_project -force -part $part card [file join $folder project]
        if {[llength [get_board_parts -quiet [dict get $facts board_part]]] > 0} {
            set_property BOARD_PART [dict get $facts board_part] [current_project]
        } else {
            puts "keywalk: board files of [dict get $facts board_part] are not installed; going on with the part alone"
        }
        add_files -norecurse [glob -directory $design *.v]
        add_files -fileset constrs_1 -norecurse [list $xdc]
        update_compile_order -fileset sources_1
    }
    keywalk::step {block design} {
        keywalk::block_design $facts $clock_mhz
        set diagram [get_files card.bd]
        set_property synth_checkpoint_mode None $diagram
        generate_target all $diagram
        add_files -norecurse [list [make_wrapper -top $diagram]]
        update_compile_order -fileset sources_1
    }
    keywalk::step synthesise {
        synth_design -top card_wrapper -part $part -flatten_hierarchy rebuilt
        source $crossings
        write_checkpoint -force [file join $folder synthesised.dcp]
        report_utilization -hierarchical -file [file join $folder utilization_synthesised.rpt]
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
    report_bus_skew -file [file join $folder bus_skew.rpt]
    report_cdc -details -file [file join $folder cdc.rpt]
    report_methodology -file [file join $folder methodology.rpt]
    report_drc -file [file join $folder drc.rpt]
}
keywalk::step timing { keywalk::check_timing }
keywalk::step bitstream {
    write_bitstream -force $bit
    write_cfgmem -force -format mcs -interface [dict get $facts configuration.flash_interface] \
        -size [dict get $facts configuration.flash_megabytes] \
        -loadbit [list up [dict get $facts configuration.flash_offset] $bit] $image
}
puts "keywalk: $bit and $image are written"
