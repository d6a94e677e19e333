# Plants faults one at a time in copies of scripts, cards, constraints and generated files, and demands that check.tcl finds each
# with the reason that belongs to it. `make fpga-check` does it.
#   tclsh fpga/check/planted.tcl [rtl=DIR] [design=DIR] [only=TEXT] [json=FILE]
# `only` takes the faults that have this text in their name. `json` writes an object for each fault: name, file, found, and in
# `what` the reason that belongs to it, or what the check said instead.
# Exit codes: 0 every fault was found, 1 one was not, 2 wrong usage or a missing input.

set here [file dirname [file normalize [info script]]]
set root [file dirname [file dirname $here]]
set arguments [dict create rtl $root/build/rtl design $root/build/card only {} json {}]
foreach argument $argv {
    if {![regexp {^([a-z]+)=(.*)$} $argument -> name value] || ![dict exists $arguments $name]} {
        puts stderr "fpga-check: `$argument` is unknown; legal are [join [dict keys $arguments] {=, }]="
        exit 2
    }
    dict set arguments $name [expr {$name eq "only" || $value eq "" ? $value : [file normalize $value]}]
}
dict with arguments {}
if {$json ne "" && ![file isdirectory [file dirname $json]]} {
    puts stderr "fpga-check: json=$json: there is no directory [file dirname $json]"
    exit 2
}
source $here/report.tcl

# What is wrong, file, text that is replaced, text that replaces it, what the reason must contain.
set faults {
    {an unknown command} fpga/tcl/block_design.tcl {    save_bd_design} {    save_bd} {invalid command name "save_bd"}
    {an unknown option} fpga/tcl/common.tcl {opt_design -directive} {opt_design -directives} {opt_design has no option -directives}
    {an option without its value} fpga/tcl/bitstream.tcl {report_drc -file [file join $folder drc.rpt]} {report_drc -file}
        {-file has no value}
    {too many arguments} fpga/tcl/block_design.tcl {    validate_bd_design} {    validate_bd_design card} {takes 0 to 0 arguments}
    {an illegal directive} fpga/tcl/common.tcl {Explore Explore AggressiveExplore} {Explore AggressiveExplore Explore}
        {place_design -directive}
    {a command of a later Tcl} fpga/tcl/common.tcl {    set latest placed} {    set latest [lindex [lmap x placed {set x}] 0]}
        {invalid command name "lmap"}
    {an unknown IP} fpga/tcl/block_design.tcl xdma:4.1 xdma:4.2 {there is no IP}
    {an unknown setting of the IP} fpga/tcl/block_design.tcl CONFIG.en_axi_slave_if CONFIG.en_axi_slave {there is no such property}
    {an illegal value of a setting} fpga/tcl/block_design.tcl {functional_mode AXI_Bridge} {functional_mode Bridge} {is not legal}
    {a bridge without its slave} fpga/tcl/block_design.tcl {en_axi_slave_if true} {en_axi_slave_if false} {is there only with}
    {an unknown module} fpga/tcl/block_design.tcl {-reference keywalk_probed_card} {-reference keywalk_probed_cart} {there is no module}
    {an unknown pin} fpga/tcl/block_design.tcl {keywalk/pcie_aresetn} {keywalk/pcie_resetn} {no bd_pin matches}
    {an unknown interface} fpga/tcl/block_design.tcl {keywalk/m_axi_host] [get} {keywalk/m_axi_hosts] [get} {no bd_intf_pin matches}
    {two drivers} fpga/tcl/block_design.tcl {[get_bd_pins keywalk/usr_irq_req]} {[get_bd_pins keywalk/usr_irq_req keywalk/link_up]}
        {takes}
    {a clock that is none} fpga/tcl/block_design.tcl {[get_bd_pins engine_clock/clk_out1]} {[get_bd_pins engine_clock/locked]}
        {is data,}
    {a clock of the other side} fpga/tcl/block_design.tcl
        {connect_bd_net [get_bd_pins pcie/axi_aclk] [get_bd_pins keywalk/pcie_aclk]}
        {connect_bd_net [get_bd_pins engine_clock/clk_out1] [get_bd_pins keywalk/pcie_aclk]} {has the clock}
    {a reset that nothing drives} fpga/tcl/block_design.tcl
        {    connect_bd_net [get_bd_pins engine_clock/locked] [get_bd_pins keywalk/engine_aresetn]} {}
        {keywalk/engine_aresetn is not driven}
    {an input of the card that nothing drives} fpga/tcl/block_design.tcl
        {    connect_bd_net [get_bd_pins pcie/usr_irq_ack] [get_bd_pins keywalk/usr_irq_ack]} {} {keywalk/usr_irq_ack is not driven}
    {an interface that is left open} fpga/tcl/block_design.tcl
        {    connect_bd_intf_net [get_bd_intf_pins memory_converter/M00_AXI] [get_bd_intf_pins pcie/S_AXI_B]} {} {does not reach}
    {an illegal identifier} fpga/tcl/block_design.tcl {pf0_device_id 903F} {pf0_device_id 0x903F} {is not legal}
    {a converter left out} fpga/tcl/block_design.tcl
        {[get_bd_intf_pins pcie/M_AXI_B] [get_bd_intf_pins register_converter/S00_AXI]}
        {[get_bd_intf_pins pcie/M_AXI_B] [get_bd_intf_pins keywalk/s_axil_host]} {a converter is missing}
    {a master without an address} fpga/tcl/block_design.tcl
        {    assign_bd_address -offset 0x0 -range 32K -target_address_space [get_bd_addr_spaces pcie/M_AXI_B]}
        {    list [get_bd_addr_spaces pcie/M_AXI_B]} {pcie/M_AXI_B has no address}
    {an address of a slave out of reach} fpga/tcl/block_design.tcl {[get_bd_addr_segs keywalk/s_axil_host/reg0]}
        {[get_bd_addr_segs pcie/S_AXI_B/BAR0]} {does not reach}
    {a missing file} fpga/tcl/bitstream.tcl {$card.xdc]} {$card.sdc]} {is missing}
    {a file in the wrong set} fpga/tcl/bitstream.tcl {-fileset constrs_1} {-fileset sources_1} {does not belong into}
    {another part} fpga/tcl/bitstream.tcl {synth_design -top card_wrapper -part $part} {synth_design -top card_wrapper -part xcu50}
        {part `xcu50` is not known}
    {another top module} fpga/tcl/bitstream.tcl {-top card_wrapper} {-top card} {is in no file}
    {no constraints of the crossings' module} fpga/tcl/bitstream.tcl {        source $crossings} {        source $crossing}
        {no such variable}
    {timing that is not looked at} fpga/tcl/bitstream.tcl {keywalk::step timing { keywalk::check_timing }} {}
        {a negative slack did not stop the run}
    {a checkpoint that is not written} fpga/tcl/common.tcl {write_checkpoint -force [file join $folder placed.dcp]} {}
        {placed.dcp was not written}
    {a checkpoint of other options} fpga/tcl/bitstream.tcl {keywalk::inputs $options} {keywalk::inputs {}}
        {other options did not start anew}
    {a checkpoint of another version} fpga/tcl/common.tcl {"Vivado [version -short]\n$options\n"} {"$options\n"}
        {another version of Vivado did not start anew}
    {a bitstream of an earlier run} fpga/tcl/bitstream.tcl {file delete $bit $image} {} {there is a bitstream though}
    {a number as Tcl reads it} fpga/tcl/common.tcl {![regexp {^[1-9][0-9]{1,2}$} $mhz]} {![string is integer -strict $mhz]}
        {clock_mhz=0x64 did not stop the run}
    {a path that is read as a pattern} fpga/tcl/bitstream.tcl {[glob -directory $design *.v]} {[glob [file join $design *.v]]}
        {step `project` failed}
    {a path that is read as a list} fpga/tcl/bitstream.tcl {[list [make_wrapper -top $diagram]]} {[make_wrapper -top $diagram]}
        {step `block design` failed}
    {a version that is not looked at} fpga/tcl/bitstream.tcl {keywalk::check_version $any_version} {} {did not stop the run}
    {a part that is not looked for} fpga/tcl/bitstream.tcl {keywalk::check_part $part} {} {did not stop the run}
    {an illegal flash image} fpga/tcl/bitstream.tcl {[list up} {[list down} {write_cfgmem -loadbit}
    {a block without its clock} fpga/tcl/ooc.tcl {{aclk clk}} {{aclk}} {has 0 ports named}

    {an unknown part} fpga/cards/u55c.toml xcu55c-fsvh2892-2L-e xcu55c-fsvh2892-2-e {is not known}
    {the part of another card} fpga/cards/u55c.toml xcu55c-fsvh2892-2L-e xcu280-fsvh2892-2L-e {is of another card}
    {the board part of another card} fpga/cards/u55c.toml au55c:part0:1.0 au50:part0:1.3 {is of another card}
    {a pin in the card's data alone} fpga/cards/u55c.toml {"AR15"} {"AR13"} {PACKAGE_PIN of pcie_refclk_clk_p[0]}
    {a fact without a source} fpga/cards/u55c.toml {"xilinx.com:au55c:part0:1.0" # ON} {"xilinx.com:au55c:part0:1.0"}
        {does not say where it comes from}
    {a fact that is missing} fpga/cards/u55c.toml {rate = "85.0" # CO} {# } {`configuration.rate` is missing}
    {a fact that nobody knows} fpga/cards/u55c.toml {rate = "85.0" # CO} {rates = "85.0" # CO} {is missing}
    {fifteen lanes} fpga/cards/u55c.toml {"X1Y0"} {"X1Y1"} {are not sixteen}
    {a reference clock far away} fpga/cards/u55c.toml {refclk_quad = 225} {refclk_quad = 231} {is none of the four}
    {a frequency in the card's data alone} fpga/cards/u55c.toml {system_mhz = 100} {system_mhz = 156} {the period of}
    {an IO standard in the card's data alone} fpga/cards/u55c.toml {perst_iostandard = "LVCMOS18"} {perst_iostandard = "LVCMOS12"}
        {IOSTANDARD of pcie_perst_n}
    {a flash that is too small} fpga/cards/u55c.toml {flash_megabytes = 128} {flash_megabytes = 16} {is beyond the flash}
    {an alarm that is not held low} fpga/cards/u55c.toml {[hbm]} {[memory]} {is unknown}
    {a section twice} fpga/cards/u55c.toml {[resources]} {[clock]} {section `clock` is there twice}
    {a number in quotes} fpga/cards/u55c.toml {refclk_mhz = 100} {refclk_mhz = "100"} {legal is a whole number}
    {a number with a zero before it} fpga/cards/u55c.toml {refclk_mhz = 100} {refclk_mhz = 0100} {legal is a whole number}
    {a number that is too large} fpga/cards/u55c.toml {luts = 1303680} {luts = 1303680000000} {legal is a whole number}
    {a string without quotes} fpga/cards/u55c.toml {part = "xcu55c-fsvh2892-2L-e"} {part = 55} {legal is a string}
    {an empty string} fpga/cards/u55c.toml {perst = "BF41"} {perst = ""} {legal is a string}
    {an escape in a string} fpga/cards/u55c.toml {perst = "BF41"} {perst = "BF41\t"} {legal is a string}
    {a list of numbers} fpga/cards/u55c.toml {["BK43/BK44"]} {[43, 44]} {legal is a list of strings}
    {a list without a comma} fpga/cards/u55c.toml {["BK43/BK44"]} {["BK43" "BK44"]} {legal is a list of strings}

    {an unknown port} constraints/u55c.xdc {[get_ports pcie_perst_n]} {[get_ports pcie_perst]} {no port matches}
    {a pin in the constraints alone} constraints/u55c.xdc {BF41} {BF42} {PACKAGE_PIN of pcie_perst_n}
    {a pin that is none} constraints/u55c.xdc {BF41} {BF4I} {is not legal}
    {a pin given twice} constraints/u55c.xdc {BF41} {AR14} {is given to}
    {a pin that is missing} constraints/u55c.xdc {set_property PACKAGE_PIN AR14} {# } {PACKAGE_PIN of pcie_refclk_clk_n[0]}
    {an unknown property} constraints/u55c.xdc {IOSTANDARD LVCMOS18 PULLTYPE} {IOSTANDART LVCMOS18 PULLTYPE}
        {there is no such property}
    {an illegal IO standard} constraints/u55c.xdc {BK10 IOSTANDARD LVDS} {BK10 IOSTANDARD LVDS_25} {is not legal}
    {a period in the constraints alone} constraints/u55c.xdc {system_clock -period 10.000} {system_clock -period 3.333} {the period of}
    {a clock that is missing} constraints/u55c.xdc {create_clock -name system_clock} {# } {has no clock}
    {a clock without a port} constraints/u55c.xdc {10.000 [get_ports system_clock_clk_p]} {10.000} {the clock is virtual}
    {a clock without a period} constraints/u55c.xdc {-name system_clock -period 10.000} {-name system_clock} {needs -period}
    {a command that constraints may not use} constraints/u55c.xdc {# PCIe.} {if {1} {set x 1} ;# PCIe.} {invalid command name "if"}
    {an unknown command in constraints} constraints/u55c.xdc {set_false_path -from} {set_falsepath -from} {invalid command name}
    {an exception without ends} constraints/u55c.xdc {set_false_path -from [get_ports pcie_perst_n]} {set_false_path}
        {neither -from nor -to}
    {an unknown setting of the bitstream} constraints/u55c.xdc {BITSTREAM.CONFIG.CONFIGRATE} {BITSTREAM.CONFIG.RATE}
        {there is no such property}
    {a flash clock in the constraints alone} constraints/u55c.xdc {CONFIGRATE 85.0} {CONFIGRATE 63.8} {CONFIGRATE is}
    {a flash bus of another width} constraints/u55c.xdc {SPI_BUSWIDTH 4} {SPI_BUSWIDTH 8} {is not the width of}

    {an unknown cell at a crossing} design/level_crossing.xdc {level_q_reg} {level_p_reg} {no cell matches}
    {an unknown clock at a crossing} design/level_crossing.xdc {[get_ports from_clock]} {[get_ports from_clack]} {no port matches}
    {a port at a crossing that is no clock} design/level_crossing.xdc {[get_ports from_clock]} {[get_ports d]} {is no clock}
    {an unknown pin at a crossing} design/reset_link.xdc {engine_reset_stage_*_reg*/CLR} {engine_reset_stage_*_reg*/CLEAR}
        {no pin matches}
    {a crossing of an unknown module} design/keywalk_shell.tcl {-ref level_crossing} {-ref level_cross} {there is no module}
    {constraints of a crossing that are missing} design/keywalk_shell.tcl {level_crossing.xdc} {level_cross.xdc} {does not exist}
    {a module of another name} design/manifest.json {"name": "keywalk_probed_card"} {"name": "keywalk_probed_cart"} {there is no module}

    {a slack of hold that is not looked at} fpga/tcl/common.tcl {setup max hold min} {setup max hold max} {a negative slack of hold}
    {timing out of context that is not looked at} fpga/tcl/ooc.tcl {keywalk::step timing { keywalk::check_timing }} {}
        {a negative slack out of context}
    {another part out of context} fpga/tcl/ooc.tcl {-part $part -mode} {-part xcu50-fsvh2104-2-e -mode} {is synthesised for}
    {another clock out of context} fpga/tcl/ooc.tcl {1000.0 / $clock_mhz} {1000 / $clock_mhz} {300 MHz have a period of}
    {a checkpoint of other options out of context} fpga/tcl/ooc.tcl {keywalk::inputs $options} {keywalk::inputs {}}
        {other options out of context did not start anew}
    {a checkpoint of other constraints} fpga/tcl/bitstream.tcl {[list $card_file $xdc} {[list $card_file} {would not start anew}
    {a checkpoint of other scripts} fpga/tcl/bitstream.tcl {[lsort [glob -directory [file dirname [info script]] *.tcl]]} {{}}
        {would not start anew}
    {a strategy that is not used} fpga/tcl/common.tcl {[directives $strategy] break} {[directives default] break} {strategy explore has}
    {a clock that is not used} fpga/tcl/block_design.tcl {OUT_FREQ $clock_mhz} {OUT_FREQ 250} {the engine's clock is not 200}
    {a report that is missing} fpga/tcl/bitstream.tcl {report_cdc -details} {# report_cdc} {cdc.rpt was not written}
    {a reset of the other polarity} fpga/tcl/block_design.tcl {POLARITY ACTIVE_LOW} {POLARITY ACTIVE_HIGH} {is not active low}
    {a BAR of another size} fpga/tcl/block_design.tcl {pf0_bar0_scale Kilobytes} {pf0_bar0_scale Megabytes} {BAR 0 has}
    {a BAR that leads elsewhere} fpga/tcl/block_design.tcl {pciebar2axibar_0 0x0000000000000000} {pciebar2axibar_0 0x0000000000010000}
        {BAR 0 leads to}
    {registers elsewhere} fpga/tcl/block_design.tcl {assign_bd_address -offset 0x0} {assign_bd_address -offset 0x8000} {registers are at}
    {a part of host memory} fpga/tcl/block_design.tcl {-range 0x00010000000000000000} {-range 4G} {does not reach all of host memory}
    {addresses that are moved} fpga/tcl/block_design.tcl {axibar2pciebar_0 0x0000000000000000} {axibar2pciebar_0 0x0000000100000000}
        {are not those of the bus}
    {crossings that are not read} fpga/tcl/bitstream.tcl {        source $crossings} {} {has no set_}
    {a module of crossings that is not read} design/keywalk_shell.tcl {read_xdc -ref reset_link} {# } {of reset_link has no set_}
    {a crossing without its delay} design/level_crossing.xdc {set_max_delay} {# } {of level_crossing has no set_max_delay}
    {a crossing that may take long} design/level_crossing.xdc {$from_clock_period} {100 ;#} {may take}
    {a pointer whose bits may be far apart} design/async_fifo_4x2.xdc {set_bus_skew} {# } {has no set_bus_skew}
    {a clock that is not looked at} constraints/u55c.xdc {# PCIe.} {set_false_path -from [get_ports system_clock_clk_p] ;#}
        {is about the clock}
    {no pull-up at PERST#} constraints/u55c.xdc { PULLTYPE PULLUP} {} {PULLTYPE of port:pcie_perst_n}
}

set folder [file join $root build fpga-planted-[pid]]
proc replaced {path old new} {
    set file [open $path]
    set text [read $file]
    close $file
    set at [string first $old $text]
    if {$at < 0} {
        error "the fault cannot be planted: $path does not have `$old`"
    }
    set file [open $path w]
    puts -nonewline $file [string replace $text $at [expr {$at + [string length $old] - 1}] $new]
    close $file
}
set chosen {}
foreach {what path old new reason} $faults {
    if {$only eq "" || [string first $only $what] >= 0} {
        lappend chosen [list $what $path $old $new $reason]
    }
}
if {[llength $chosen] == 0} {
    puts stderr "fpga-check: only=$only takes no fault"
    exit 2
}
set missed 0
set rows {}
foreach fault $chosen {
    lassign $fault what path old new reason
    report::progress "planted fault [expr {[llength $rows] + 1}] of [llength $chosen], $missed missed: $what"
    file delete -force $folder
    file mkdir $folder/fpga
    file copy $root/fpga/cards $root/fpga/tcl $folder/fpga
    file copy $root/constraints $folder/constraints
    file copy $design $folder/design
    set found 0
    if {![catch {replaced $folder/$path $old $new} said]} {
        set failed [catch {
            exec [info nameofexecutable] $here/check.tcl root=$folder rtl=$rtl design=$folder/design cards=u55c 2>@1
        } said]
        set found [expr {$failed && [regexp {failed: (.*?)\n\n} $said -> why] && [string first $reason $why] >= 0}]
        set said "the check said: [lindex [split $said \n] 1]"
    }
    lappend rows [dict create name $what file $path found $found what [expr {$found ? $reason : $said}]]
    if {!$found} {
        incr missed
        report::line "$what in $path: not found as `$reason`; $said"
    }
}
file delete -force $folder
report::line "planted faults: [expr {[llength $chosen] - $missed}] of [llength $chosen] found"
if {$json ne ""} {
    report::write $json $rows found
}
exit [expr {$missed ? 1 : 0}]
