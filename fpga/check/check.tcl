# Runs the scripts of fpga/tcl for every card under plain Tcl against stand-ins for Vivado's commands, evaluates the constraints,
# and compares what they say with the card's data and the generated modules. `make fpga-check` does it.
#   tclsh fpga/check/check.tcl [root=DIR] [rtl=DIR] [design=DIR] [cards="u50 u55c"] [json=FILE]
# `root` is the repository, or a copy of its folders `fpga` and `constraints`; `rtl` and `design` hold what keywalk-gen
# made: `rtl` and `card`. `json` writes an object for each card and check: name, card, check, passed, and in `what` what was
# looked at, or why it failed.
# Exit codes: 0 every card passes, 1 one does not, 2 wrong usage or a missing input.

set here [file dirname [file normalize [info script]]]
set arguments [dict create root [file dirname [file dirname $here]] rtl build/rtl design build/card cards {} json {}]
foreach argument $argv {
    if {![regexp {^([a-z]+)=(.*)$} $argument -> name value] || ![dict exists $arguments $name]} {
        puts stderr "fpga-check: `$argument` is unknown; legal are [join [dict keys $arguments] {=, }]="
        exit 2
    }
    dict set arguments $name $value
}
foreach path {root rtl design json} {
    if {[dict get $arguments $path] ne ""} {
        dict set arguments $path [file normalize [dict get $arguments $path]]
    }
}
dict with arguments {}
foreach path [list $root/fpga/tcl/common.tcl $rtl/manifest.json $design/manifest.json] {
    if {![file exists $path]} {
        puts stderr "fpga-check: $path is missing; `make rtl card` generates Verilog and manifests"
        exit 2
    }
}
if {$json ne "" && ![file isdirectory [file dirname $json]]} {
    puts stderr "fpga-check: json=$json: there is no directory [file dirname $json]"
    exit 2
}
cd $root
source $root/fpga/tcl/common.tcl
source $here/report.tcl
source $here/commands.tcl
source $here/vivado.tcl
source $here/design.tcl

# Reads JSON: objects become dictionaries, arrays lists, everything else its text.
proc json {text} {
    set tokens [regexp -all -inline {"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"\s]+} $text]
    set next 0
    return [json_value $tokens next]
}
proc json_value {tokens next_name} {
    upvar 1 $next_name next
    set token [lindex $tokens $next]
    incr next
    set list {}
    if {$token eq "\{" || $token eq "\["} {
        set end [expr {$token eq "\{" ? "\}" : "\]"}]
        while {[lindex $tokens $next] ne $end} {
            if {$next >= [llength $tokens]} {
                error "the text ends within an object"
            }
            if {[lindex $tokens $next] eq ","} {
                incr next
            } elseif {$end eq "\}"} {
                set key [string trim [lindex $tokens $next] \"]
                incr next 2
                lappend list $key [json_value $tokens next]
            } else {
                lappend list [json_value $tokens next]
            }
        }
        incr next
        return $list
    }
    return [string trim $token \"]
}

# Ports, attributes and registers of every module of a folder.
proc read_modules {folder} {
    set modules {}
    set attributes {}
    set registers {}
    foreach module [dict get [json [keywalk::text_of $folder/manifest.json]] modules] {
        set name [dict get $module name]
        if {![file exists $folder/$name.v]} continue
        set ports {}
        foreach port [dict get $module ports] {
            dict set ports [dict get $port name] \
                [list [expr {[dict get $port direction] eq "input" ? "I" : "O"}] [dict get $port width_bits]]
        }
        dict set modules $name $ports
        set text [keywalk::text_of $folder/$name.v]
        set found {}
        foreach {- kind port} [regexp -all -inline {signal:(clock|reset|interrupt):1\.0 (\w+) } $text] {
            dict set found $port [list $kind {}]
        }
        foreach {- buses port} [regexp -all -inline {ASSOCIATED_BUSIF ([\w:]+), [^)]*\)\s*input wire (\w+)} $text] {
            dict set found $port [list clock [split $buses :]]
        }
        dict set attributes $name $found
        set names {}
        foreach {- register} [regexp -all -inline -line {^\s*(?:\(\*[^)]*\*\)\s*)?(?:output )?reg\s+(?:signed\s+)?(?:\[[^]]*\]\s*)?(\w+)} $text] {
            lappend names $register
        }
        dict set registers $name $names
    }
    return [list $modules $attributes $registers]
}

# Runs a script as Vivado would, in an interpreter with Tcl 8.5's commands and the stand-ins; gives its exit code and last words.
proc run_script {script arguments} {
    set flow [interp create]
    foreach command {try throw lmap zlib coroutine yield yieldto tailcall exec socket} {
        if {[llength [interp eval $flow [list info commands $command]]]} {
            interp hide $flow $command
        }
    }
    foreach command [dict keys $::vivado::syntax] {
        interp alias $flow $command {} ::vivado::call $command
    }
    set ::said {}
    interp alias $flow say {} say
    interp eval $flow $::puts_of_script
    # `exit` ends the script by an error, and its code is remembered: a `catch` of the script would keep the error.
    set ::exit_code {}
    interp alias $flow exit {} remember_exit
    interp eval $flow [list set argv $arguments]
    set failed [catch {interp eval $flow [list source $script]} reason]
    interp delete $flow
    if {$::exit_code ne ""} {
        return [list $::exit_code $::said]
    }
    if {$failed} {
        return [list 1 $reason]
    }
    return [list 0 $::said]
}
# What a script says goes nowhere but its last words; files it writes as ever.
set puts_of_script {
    rename puts puts_to_file
    proc puts {args} {
        set channel [lindex [concat stdout $args] end-1]
        if {$channel in {stdout stderr -nonewline} && [llength $args] < 3} {
            say [lindex $args end]
        } else {
            puts_to_file {*}$args
        }
    }
}
proc say {text} {
    set ::said $text
}
proc remember_exit {{code 0}} {
    if {$::exit_code eq ""} {
        set ::exit_code $code
    }
    return -code error "exit $code"
}

proc expect {condition reason} {
    if {![uplevel 1 [list expr $condition]]} {
        error [uplevel 1 [list subst $reason]]
    }
}

# A run of bitstream.tcl with a fresh Vivado.
proc bitstream {card out args} {
    lassign $::everything modules attributes registers
    vivado::reset $modules $attributes $registers
    foreach {name value} [lindex $args 0] {
        set ::vivado::state($name) $value
    }
    return [run_script fpga/tcl/bitstream.tcl \
        [concat [list card=$card design=$::design out=$out] [lrange $args 1 end]]]
}

# A run of ooc.tcl likewise.
proc out_of_context {card out state args} {
    vivado::reset {*}$::everything
    foreach {name value} $state {
        set ::vivado::state($name) $value
    }
    return [run_script fpga/tcl/ooc.tcl [concat [list card=$card rtl=$::rtl out=$out] $args]]
}

# The checks of a card, in their order, and what each looks at.
set checks {
    data {part and board part are known and the card's own; sixteen lanes downwards, their clock from one of their quads}
    flow {bitstream.tcl runs from the project to the flash image and writes every report and checkpoint}
    {block design} {clocks, resets, interfaces, addresses and settings of the PCIe IP are what the design needs}
    crossings {every crossing between two clocks has its constraints, and no exception takes a clock out of the analysis}
    {used options} {strategy and inputs are those of the run}
    constraints {pins, IO standards, clocks and configuration in the XDC are those of the card's data}
    checkpoints {the same run goes on after the last checkpoint; other options, files or versions start anew}
    stops {timing that is not met and wrong options stop the run, and no bitstream stays}
    {any version} {other versions of Vivado run where that is asked for, and so does one without board files}
    {out of context} {ooc.tcl runs blocks with their clock and the card's part, goes on, starts anew and stops likewise}
}

# One of these checks: runs its body in the caller and keeps what came of it in `results`.
proc part {check body} {
    upvar 1 card card
    report::progress "$card ([expr {[lsearch -exact $::cards $card] + 1}] of [llength $::cards]): $check"
    if {![dict exists $::checks $check]} {
        error "check `$check` is in no list"
    }
    if {[catch {uplevel 1 $body} reason]} {
        result $card $check 0 $reason
        error $reason
    }
    result $card $check 1 [dict get $::checks $check]
}

# Keeps the result of a check.
proc result {card check passed what} {
    dict set ::results [list $card $check] \
        [dict create name "$card: $check" card $card check $check passed $passed what $what]
}

# Everything that is asked of a card; gives the row of the table, or an error with the reason.
proc check_card {card out} {
    global rtl design
    part data {
        set facts [keywalk::read_card fpga/cards/$card.toml sources]
        expect {[lsearch -exact $::vivado::parts [dict get $facts part]] >= 0} {part [dict get $facts part] is not known}
        expect {[string match "xilinx.com:a$card:*" [dict get $facts board_part]]} {board part [dict get $facts board_part] is of another card}
        expect {[string match "xc${card}-*" [dict get $facts part]]} {part [dict get $facts part] is of another card}
        # Sixteen lanes, downwards; their clock comes from one of their quads.
        foreach end {first last} {
            expect {[regexp {^X\d+Y(\d+)$} [dict get $facts pcie.lane_$end] - y_$end]} {lane [dict get $facts pcie.lane_$end] is no transceiver}
        }
        expect {$y_first - $y_last == 15} {lanes [dict get $facts pcie.lane_first] to [dict get $facts pcie.lane_last] are not sixteen}
        regexp {(\d+)$} [dict get $facts pcie.select_quad] quad
        expect {[dict get $facts pcie.refclk_quad] <= $quad && [dict get $facts pcie.refclk_quad] > $quad - 4} \
            {the reference clock's quad [dict get $facts pcie.refclk_quad] is none of the four below $quad}
    }
    part flow {
        lassign [bitstream $card $out {}] code said
        expect {$code == 0} {$said}
        array set state [array get ::vivado::state]
        foreach file [list keywalk_$card.bit keywalk_$card.mcs synthesised.dcp placed.dcp routed.dcp timing.rpt utilization.rpt \
            bus_skew.rpt cdc.rpt methodology.rpt drc.rpt] {
            expect {[file exists $out/$card/$file]} {$file was not written}
        }
    }
    part {block design} {
        check_block_design 250
    }
    part crossings {
        check_crossings
        check_exceptions
    }
    part {used options} {
        check_directives default
        check_inputs $out/$card [concat [list fpga/cards/$card.toml constraints/$card.xdc $design/manifest.json] \
            [glob -directory fpga/tcl *.tcl]]
    }
    set row [list $card [dict get $facts part]]
    lappend row [dict get $state(counts) commands] [dict get $state(counts) cells] [dict get $state(counts) connections]
    lappend row [dict get $state(counts) pins] [dict get $state(counts) clocks] [dict get $state(counts) exceptions]
    set unverified 0
    foreach source [dict values $sources] {
        incr unverified [string match "not verified*" $source]
    }
    lappend row $unverified

    part constraints {
        set pins [dict create \
            {pcie_refclk_clk_p[0]} [list [dict get $facts pcie.refclk_p] {}] \
            {pcie_refclk_clk_n[0]} [list [dict get $facts pcie.refclk_n] {}] \
            pcie_perst_n [list [dict get $facts pcie.perst] [dict get $facts pcie.perst_iostandard]] \
            system_clock_clk_p [list [dict get $facts clock.system_p] [dict get $facts clock.system_iostandard]] \
            system_clock_clk_n [list [dict get $facts clock.system_n] [dict get $facts clock.system_iostandard]]]
        if {[keywalk::has_hbm $facts]} {
            dict set pins hbm_cattrip [list [dict get $facts hbm.cattrip] [dict get $facts hbm.cattrip_iostandard]]
        }
        foreach port $state(top) {
            if {![string match pcie_lanes_* $port]} {
                expect {[dict exists $pins $port]} {port $port is of no fact of the card}
            }
        }
        dict for {port wanted} $pins {
            expect {[lsearch -exact $state(top) $port] >= 0} {the block design has no port $port}
            foreach name {PACKAGE_PIN IOSTANDARD} value $wanted {
                set is ""
                if {[dict exists $state(properties) port:$port $name]} {
                    set is [dict get $state(properties) port:$port $name]
                }
                expect {$is eq $value} {$name of $port is `$is` in the constraints, the card's data says `$value`}
            }
        }
        foreach {port key} [list {pcie_refclk_clk_p[0]} pcie.refclk_mhz system_clock_clk_p clock.system_mhz] {
            expect {[dict exists $state(properties) port:$port PERIOD]} {$port has no clock}
            set period [dict get $state(properties) port:$port PERIOD]
            set mhz [dict get $facts $key]
            expect {abs($period - 1000.0 / $mhz) < 0.001} {the period of $port is $period ns, the card's data says $mhz MHz}
        }
        foreach {name key} {BITSTREAM.CONFIG.CONFIGRATE rate CONFIG_VOLTAGE voltage CONFIG_MODE flash_interface} {
            set is ""
            if {[dict exists $state(properties) design:card_wrapper $name]} {
                set is [dict get $state(properties) design:card_wrapper $name]
            }
            set value [dict get $facts configuration.$key]
            expect {$is eq $value} {$name is `$is` in the constraints, the card's data says `$value`}
        }
        regexp {\d+$} [dict get $facts configuration.flash_interface] bits
        expect {[dict get $state(properties) design:card_wrapper BITSTREAM.CONFIG.SPI_BUSWIDTH] eq $bits} \
            {BITSTREAM.CONFIG.SPI_BUSWIDTH is not the width of [dict get $facts configuration.flash_interface]}
        foreach {name key} {CONFIG.select_quad pcie.select_quad CONFIG.pl_link_cap_max_link_width pcie.link_width
            CONFIG.pl_link_cap_max_link_speed pcie.link_speed} {
            expect {[dict get $state(properties) bd_cell:pcie $name] eq [dict get $facts $key]} {$name of the PCIe IP is not the card's}
        }
    }
    part checkpoints {
        # The same again goes on after the last checkpoint; other options, or a changed file, start anew; a stage in between as well.
        lassign [bitstream $card $out {}] code said
        expect {$code == 0} {second run: $said}
        expect {"synth_design" ni $::vivado::state(called) && "route_design" ni $::vivado::state(called)} \
            {the second run did not go on after the last checkpoint}
        file delete $out/$card/routed.dcp
        lassign [bitstream $card $out {}] code said
        expect {$code == 0 && "route_design" in $::vivado::state(called) && "place_design" ni $::vivado::state(called)} \
            {a run after placement did not go on there: $said}
        foreach strategy {explore quick} {
            lassign [bitstream $card $out {} strategy=$strategy clock_mhz=200] code said
            expect {$code == 0 && "synth_design" in $::vivado::state(called)} {other options did not start anew: $said}
            check_block_design 200
            check_directives $strategy
        }
        lassign [bitstream $card $out {version 2022.2} strategy=quick clock_mhz=200] code said
        expect {$code == 0 && "synth_design" in $::vivado::state(called)} {another version of Vivado did not start anew: $said}
    }
    part stops {
        # What must stop it; the bitstream of the run before goes, too.
        expect {[file exists $out/$card/keywalk_$card.bit]} {the run before left no bitstream}
        lassign [bitstream $card $out {slack -0.25}] code said
        expect {$code == 1 && [string match "*timing is not met*" $said]} {a negative slack did not stop the run: $said}
        expect {![file exists $out/$card/keywalk_$card.bit] && ![file exists $out/$card/keywalk_$card.mcs]} \
            {there is a bitstream though timing is not met}
        lassign [bitstream $card $out {hold_slack -0.01}] code said
        expect {$code == 1 && [string match "*timing is not met*" $said]} {a negative slack of hold did not stop the run: $said}
        foreach {other argument reason} {
            {} strategy=fast {strategy `fast` is unknown}
            {} clock_mhz=fast {clock_mhz is `fast`}
            {} clock_mhz=0x64 {clock_mhz is `0x64`}
            {} clock_mhz=0100 {clock_mhz is `0100`}
            {} clock_mhz=501 {clock_mhz is `501`}
            {} card=none {there is no card file}
            {} cards=u50 {option `cards` is unknown}
            {} u50 {is not of the form name=value}
            {} design=nowhere {is missing}
            {} any_version=yes {any_version is `yes`}
            {version 2021.1} strategy=default {this is Vivado 2021.1}
            {parts_installed 0} strategy=default {does not have the part}
        } {
            lassign [bitstream $card $out $other $argument] code said
            expect {$code == 1 && [string first $reason $said] >= 0} {$other $argument did not stop the run: $said}
        }
    }
    part {any version} {
        lassign [bitstream $card $out {version 2021.1} any_version=1 strategy=quick] code said
        expect {$code == 0} {with any_version=1 and Vivado 2021.1: $said}
        # Without board files the part alone is enough.
        file delete -force $out/$card
        lassign [bitstream $card $out {boards_installed 0}] code said
        expect {$code == 0} {without board files: $said}
    }
    part {out of context} {
        foreach block {tlb keywalk} {
            lassign [out_of_context $card $out {} block=$block] code said
            expect {$code == 0} {block $block out of context: $said}
            expect {[dict get $::vivado::state(counts) clocks] == 1} {block $block has no clock}
            expect {[option_of synth_design -part] eq [dict get $facts part]} \
                {block $block is synthesised for [option_of synth_design -part]}
            expect {[option_of create_clock -period] == 4} {the clock of block $block has [option_of create_clock -period] ns}
            check_directives default
            check_inputs $out/ooc/$card/$block [concat [list fpga/cards/$card.toml $rtl/manifest.json] [glob -directory fpga/tcl *.tcl]]
        }
        lassign [out_of_context $card $out {} block=tlb] code said
        expect {$code == 0 && "synth_design" ni $::vivado::state(called)} {the second run out of context did not go on: $said}
        lassign [out_of_context $card $out {} block=tlb clock_mhz=300 strategy=explore] code said
        expect {$code == 0 && "synth_design" in $::vivado::state(called)} {other options out of context did not start anew: $said}
        expect {abs([option_of create_clock -period] - 1000.0 / 300) < 0.001} \
            {300 MHz have a period of [option_of create_clock -period] ns}
        check_directives explore
        lassign [out_of_context $card $out {slack -0.25} block=tlb] code said
        expect {$code == 1 && [string match "*timing is not met*" $said]} {a negative slack out of context did not stop the run: $said}
        lassign [out_of_context $card $out {} block=none] code said
        expect {$code == 1 && [string match "*blocks are*tlb*" $said]} {an unknown block did not stop the run: $said}
    }
    return [concat $row passed]
}

lassign [read_modules $rtl] modules attributes registers
lassign [read_modules $design] more_modules more_attributes more_registers
set everything [list [dict merge $modules $more_modules] [dict merge $attributes $more_attributes] \
    [dict merge $registers $more_registers]]
if {[llength $cards] == 0} {
    foreach path [lsort [glob -nocomplain fpga/cards/*.toml]] {
        lappend cards [file rootname [file tail $path]]
    }
}
# Blanks and what Tcl and `glob` read as their own, in every path that a script is given.
set out [file join $root build "fpga check \[[pid]\] {x"]
file mkdir $out
foreach name {rtl design} {
    file link -symbolic [file join $out $name] [set $name]
    set $name [file join $out $name]
}
set form "%-6s %-22s %8s %6s %12s %5s %7s %11s %13s  %s"
puts [format $form card part commands cells connections pins clocks exceptions "not verified" result]
set failures 0
set results {}
foreach card $cards {
    set failed [catch {check_card $card $out} row]
    foreach check [dict keys $checks] {
        if {![dict exists $results [list $card $check]]} {
            result $card $check 0 "not run[expr {$failed ? {: a check before it failed} : {}}]"
            if {!$failed} {
                set row "check `$check` was not run"
                set failed 1
            }
        }
    }
    if {$failed} {
        incr failures
        report::line [format $form $card - - - - - - - - "failed: $row"]
    } else {
        report::line [format $form {*}$row]
    }
}
file delete -force $out
if {$json ne ""} {
    report::write $json [dict values $results] passed
}
puts {
commands: calls of Vivado's commands in one whole run. exceptions: false paths, longest delays and skews, each with cells or ports
that were found. not verified: facts of the card whose source says so.
These checks cannot show: what is wrong in lines of the scripts that no run reaches; that Vivado accepts the IP's settings and
the inferred interfaces; that a pin's name exists on the package or goes where the card's data says, where data and constraints
are wrong alike; that timing closes; that names of registers outlive synthesis; that a link trains or a flash is written.
Nothing here has run under Vivado or on a card.}
exit [expr {$failures ? 1 : 0}]
