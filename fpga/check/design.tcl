# What the stand-ins remember of a run, against the card's data, the generated modules and the run's options: addresses, clocks,
# directives, reports, crossings.

# Calls of a command in the last run, each with its options, a dictionary, and its arguments.
proc calls_of {command} {
    set found {}
    foreach call $::vivado::state(calls) {
        if {[lindex $call 0] eq $command} {
            lappend found [lrange $call 1 end]
        }
    }
    return $found
}

# The value of an option in the last call of a command.
proc option_of {command option} {
    return [vivado::option [lindex [calls_of $command] end 0] $option]
}

# A property of a cell of the block design, or of a port.
proc property {object name} {
    if {![dict exists $::vivado::state(properties) $object $name]} {
        error "$name of $object is not set"
    }
    return [dict get $::vivado::state(properties) $object $name]
}

# Names of the block design's cells of an IP.
proc cells_of {ip} {
    set found {}
    dict for {cell facts} $::vivado::state(cells) {
        if {[lindex [split [dict get $facts vlnv] :] 2] eq $ip} {
            lappend found $cell
        }
    }
    return $found
}

proc bytes_of {text} {
    if {[regexp {^([0-9]+)([KMGTPE])$} $text -> number unit]} {
        return [expr {$number << 10 * (1 + [string first $unit KMGTPE])}]
    }
    return [expr {$text}]
}

# The block design of a run with this clock.
proc check_block_design {clock_mhz} {
    set pcie bd_cell:[cells_of xdma]
    expect {[property bd_cell:[cells_of clk_wiz] CONFIG.CLKOUT1_REQUESTED_OUT_FREQ] == $clock_mhz} \
        {the engine's clock is not $clock_mhz MHz}
    expect {[property bd_port:pcie_perst_n CONFIG.POLARITY] eq "ACTIVE_LOW"} {PERST# is not active low}

    # BAR 0 is as large as the registers behind it, and both begin at the same address.
    set master [cells_of xdma]/M_AXI_B
    lassign [dict get $::vivado::state(addresses) $master] segment offset range
    lassign [split $segment /] cell bus
    set module [lindex [split [dict get $::vivado::state(cells) $cell vlnv] :] 2]
    set registers [expr {1 << [lindex [dict get $::vivado::state(modules) $module ${bus}_awaddr] 1]}]
    set kilobytes [string map {Kilobytes 1 Megabytes 1024 Gigabytes 1048576} [property $pcie CONFIG.pf0_bar0_scale]]
    set bar [expr {[property $pcie CONFIG.pf0_bar0_size] * $kilobytes * 1024}]
    expect {$bar == $registers && [bytes_of $range] == $registers} \
        {BAR 0 has $bar bytes and its window [bytes_of $range], $module has $registers bytes of registers}
    expect {$offset == [property $pcie CONFIG.pciebar2axibar_0]} \
        {BAR 0 leads to [property $pcie CONFIG.pciebar2axibar_0], registers are at $offset}

    # Host memory: every address, unchanged.
    set masters 0
    dict for {master facts} $::vivado::state(addresses) {
        lassign $facts segment offset range
        if {$segment eq "[cells_of xdma]/S_AXI_B/BAR0"} {
            incr masters
            expect {$offset == 0 && [bytes_of $range] == 1 << 64} {$master does not reach all of host memory}
        }
    }
    expect {$masters > 0} {nothing reaches host memory}
    expect {[property $pcie CONFIG.axibar2pciebar_0] == 0} {addresses of host memory are not those of the bus}
}

# Every synchroniser, and every memory between two clocks, of the modules that were read has its constraint.
proc check_crossings {} {
    set crossings 0
    dict for {module registers} $::vivado::state(registers) {
        foreach register $registers {
            set is_catcher [string match *_reset_stage_* $register]
            set is_crossing [expr {[string match *_stage_0 $register] || ($is_catcher && [is_cleared $module $register])}]
            if {!$is_crossing && !([string match async_fifo_* $module] && $register eq "memory_read_data")} continue
            incr crossings
            set wanted [expr {$is_catcher ? [list set_false_path $register/CLR] : [list set_max_delay $register]}]
            lassign $wanted command target
            expect {[dict exists $::vivado::state(exceptions) $module $command $target]} {$target of $module has no $command}
            if {$is_catcher} continue
            set delay [dict get $::vivado::state(exceptions) $module $command $target]
            expect {$delay > 0 && $delay <= 4.0} {$target of $module may take $delay ns, more than a period}
            if {[string match *_gray_* $register]} {
                expect {[dict exists $::vivado::state(exceptions) $module set_bus_skew $target]} \
                    {$target of $module has no set_bus_skew}
                set skew [dict get $::vivado::state(exceptions) $module set_bus_skew $target]
                expect {$skew > 0 && $skew <= 4.0} {bits of $target of $module may be $skew ns apart, more than a period}
            }
        }
    }
    expect {$crossings > 0} {there is no crossing}
}

# Whether a reset clears a stage of a catcher: the last two stages have no clear.
proc is_cleared {module register} {
    regexp {^(.*_stage_)(\d+)$} $register -> stem stage
    return [expr {[lsearch -exact [dict get $::vivado::state(registers) $module] $stem[expr {$stage + 2}]] >= 0}]
}

# Exceptions in a card's own constraints: no clock is taken out of the analysis.
proc check_exceptions {} {
    dict for {command targets} [dict get $::vivado::state(exceptions) {}] {
        dict for {target value} $targets {
            expect {![dict exists $::vivado::state(properties) port:$target PERIOD]} {$command is about the clock $target}
        }
    }
    expect {[property port:pcie_perst_n PULLTYPE] eq "PULLUP"} {pcie_perst_n has no pull-up}
}

# Directives of a strategy: optimise, place, improve, route.
proc check_directives {strategy} {
    set wanted [dict get {
        default {Default Default Default Default}
        explore {Explore Explore AggressiveExplore AggressiveExplore}
        quick {RuntimeOptimized RuntimeOptimized RuntimeOptimized RuntimeOptimized}
    } $strategy]
    foreach command {opt_design place_design phys_opt_design route_design} directive $wanted {
        expect {[option_of $command -directive] eq $directive} \
            {$command ran with [option_of $command -directive], strategy $strategy has $directive}
    }
}

# What the checkpoints of a folder depend on has the text of these files in it.
proc check_inputs {folder paths} {
    set inputs [keywalk::text_of $folder/inputs.txt]
    foreach path $paths {
        expect {[string first [keywalk::text_of $path] $inputs] >= 0} {a change of $path would not start anew}
    }
}
