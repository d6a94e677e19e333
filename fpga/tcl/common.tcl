# What the scripts share: options, cards, steps, timing. Written for Vivado's Tcl 8.5: no `try`, no `lmap`, no `zlib`.

namespace eval keywalk {
    # Vivado versions that the scripts were written for. None of them has run the scripts.
    variable versions {2022.2 2023.1 2023.2}
    # Modules of build/rtl that may be synthesised by themselves, besides queues, whose names have sizes; vivado.sh looks at them.
    variable blocks {
        access_check atomic_unit burst_cutter byte_rotator completion_port context_port csr data_mover entry_decode fault fence
        hem_lookup key_decoder keywalk keywalk_core keywalk_mover keywalk_probe modulo mover_dispatch mover_read mover_write
        mpt_cache mtr_walker page_split probe response_port split_buffer table_port tlb walk_queue write_port
    }
    # Legal clocks in MHz, from the slowest to the fastest.
    variable clock_mhz {50 500}
    # Strategies: the directives that optimise, place, improve and route.
    variable strategies {
        default {Default Default Default Default}
        explore {Explore Explore AggressiveExplore AggressiveExplore}
        quick {RuntimeOptimized RuntimeOptimized RuntimeOptimized RuntimeOptimized}
    }
    # Sections and keys of a card: the ones that every card has, and the ones that a card with HBM has.
    variable card_keys {
        name part board_part
        pcie.refclk_p pcie.refclk_n pcie.refclk_mhz pcie.refclk_quad pcie.perst pcie.perst_iostandard
        pcie.lane_first pcie.lane_last pcie.hard_block pcie.link_width pcie.link_speed pcie.select_quad
        clock.system_p clock.system_n clock.system_iostandard clock.system_mhz clock.others
        configuration.rate configuration.voltage
        configuration.flash_interface configuration.flash_megabytes configuration.flash_offset
        resources.luts resources.registers resources.block_rams resources.ultra_rams
    }
    variable card_hbm_keys {hbm.cattrip hbm.cattrip_iostandard}
    # Of these the ones that are numbers, and lists; all others are strings.
    variable card_numbers {
        pcie.refclk_mhz pcie.refclk_quad clock.system_mhz configuration.flash_megabytes
        resources.luts resources.registers resources.block_rams resources.ultra_rams
    }
    variable card_lists {clock.others}
}

# Ends with the reason.
proc keywalk::stop {reason} {
    puts stderr "keywalk: $reason"
    exit 1
}

# Options `name=value` of the command line over their defaults, a dictionary. An unknown name ends the run.
proc keywalk::options {defaults arguments} {
    foreach argument $arguments {
        if {![regexp {^([a-z_]+)=(.*)$} $argument -> name value]} {
            stop "argument `$argument` is not of the form name=value; legal names are [join [dict keys $defaults] {, }]"
        }
        if {![dict exists $defaults $name]} {
            stop "option `$name` is unknown; legal are [join [dict keys $defaults] {, }]"
        }
        dict set defaults $name $value
    }
    return $defaults
}

# Whole text of a file.
proc keywalk::text_of {path} {
    set file [open $path r]
    set text [read $file]
    close $file
    return $text
}

# Reads a card: a dictionary from `section.key` to value. The file is TOML of which only this is legal: sections, and keys with
# a string without escapes, a whole number above 0 or a list of such strings on one line, each followed by a comment that says
# where the fact comes from. `sources_name`, where it is given, is set to a dictionary from key to that comment.
proc keywalk::read_card {path {sources_name {}}} {
    variable card_keys
    variable card_hbm_keys
    variable card_numbers
    variable card_lists
    if {![file isfile $path]} {
        set cards {}
        foreach file [lsort [glob -nocomplain -directory [file dirname $path] *.toml]] {
            lappend cards [file rootname [file tail $file]]
        }
        error "there is no card file $path; cards are [join $cards {, }]"
    }
    set card [dict create]
    set sources [dict create]
    set section {}
    set sections {}
    set number 0
    foreach line [split [text_of $path] \n] {
        incr number
        if {[regexp {^\s*(#.*)?$} $line]} continue
        if {[regexp {^\[([a-z]+)\]$} $line -> name]} {
            if {[lsearch -exact $sections $name] >= 0} {
                error "$path:$number: section `$name` is there twice"
            }
            lappend sections $name
            set section $name.
            continue
        }
        if {![regexp {^([a-z_]+) = ("[^"]*"|[0-9]+|\[[^\]]*\])\s*(#\s*(.+))?$} $line -> key value comment source]} {
            error "$path:$number: `$line` is neither a section nor a key with a string, a number or a list of strings"
        }
        # Tcl takes 0100 for 64, and TOML does not take it at all.
        set kinds {number {^[1-9][0-9]{0,8}$} list {^\[("[^"\\]+"(, "[^"\\]+")*)?\]$} string {^"[^"\\]+"$}}
        set kind string
        if {[lsearch -exact $card_numbers $section$key] >= 0} {
            set kind number
        } elseif {[lsearch -exact $card_lists $section$key] >= 0} {
            set kind list
        }
        if {![regexp [dict get $kinds $kind] $value]} {
            set legal {
                number {a whole number from 1 to 999999999}
                list {a list of strings, as ["a", "b"]}
                string {a string, not empty and without escapes}
            }
            error "$path:$number: `$key` is $value; legal is [dict get $legal $kind]"
        }
        if {$source eq ""} {
            error "$path:$number: `$key` does not say where it comes from; put a comment behind it"
        }
        if {[string index $value 0] eq "\["} {
            set list {}
            foreach {- item} [regexp -all -inline {"([^"]*)"} $value] {
                lappend list $item
            }
            set value $list
        } else {
            set value [string trim $value \"]
        }
        set key $section$key
        if {[dict exists $card $key]} {
            error "$path:$number: `$key` is there twice"
        }
        dict set card $key $value
        dict set sources $key $source
    }
    set wanted $card_keys
    if {[dict exists $card [lindex $card_hbm_keys 0]]} {
        set wanted [concat $wanted $card_hbm_keys]
    }
    foreach key $wanted {
        if {![dict exists $card $key]} {
            error "$path: `$key` is missing"
        }
    }
    foreach key [dict keys $card] {
        if {[lsearch -exact $wanted $key] < 0} {
            error "$path: `$key` is unknown; legal are [join [concat $card_keys $card_hbm_keys] {, }]"
        }
    }
    if {[dict get $card name] ne [file rootname [file tail $path]]} {
        error "$path: `name` is [dict get $card name], which is not the file's name"
    }
    if {$sources_name ne {}} {
        upvar 1 $sources_name result
        set result $sources
    }
    return $card
}

# Whether a card has HBM.
proc keywalk::has_hbm {card} {
    return [dict exists $card hbm.cattrip]
}

# Ends unless this Vivado is one that the scripts were written for, or `any_version` is 1.
proc keywalk::check_version {any_version} {
    variable versions
    if {[lsearch -exact {0 1} $any_version] < 0} {
        stop "any_version is `$any_version`; legal are 0, 1"
    }
    set version [version -short]
    if {[lsearch -exact $versions $version] < 0 && $any_version ne "1"} {
        stop "this is Vivado $version; the scripts were written for [join $versions {, }]. any_version=1 tries all the same"
    }
}

# Ends unless the part is installed.
proc keywalk::check_part {part} {
    if {[llength [get_parts -quiet $part]] == 0} {
        stop "this Vivado does not have the part $part: install the device family, or a licence for it"
    }
}

# Runs a step; ends with its name and the reason when it fails.
proc keywalk::step {name body} {
    puts "keywalk: $name"
    set start [clock seconds]
    if {[catch {uplevel 1 $body} reason]} {
        stop "step `$name` failed: $reason"
    }
    puts "keywalk: $name done in [expr {[clock seconds] - $start}] s"
}

# Worst slacks of the open design in ns, a dictionary; an error when a slack is negative or there is no path.
proc keywalk::check_timing {} {
    set slacks [dict create]
    foreach {kind delay} {setup max hold min} {
        set paths [get_timing_paths -delay_type $delay -max_paths 1]
        if {[llength $paths] == 0} {
            error "there is no timing path for $kind: the clocks are not constrained"
        }
        dict set slacks $kind [get_property SLACK [lindex $paths 0]]
    }
    puts "keywalk: worst slack in ns: setup [dict get $slacks setup], hold [dict get $slacks hold]"
    dict for {kind slack} $slacks {
        if {$slack < 0} {
            error "timing is not met: worst $kind slack is $slack ns; see timing.rpt, try another strategy or a slower clock"
        }
    }
    return $slacks
}

# Directives of a strategy: optimise, place, improve, route.
proc keywalk::directives {strategy} {
    variable strategies
    if {![dict exists $strategies $strategy]} {
        stop "strategy `$strategy` is unknown; legal are [join [dict keys $strategies] {, }]"
    }
    return [dict get $strategies $strategy]
}

# Ends unless the clock is a whole number of MHz in its range, written as such: Tcl also reads `0x64` and `0100`.
proc keywalk::check_clock {mhz} {
    variable clock_mhz
    foreach {slowest fastest} $clock_mhz break
    if {![regexp {^[1-9][0-9]{1,2}$} $mhz] || $mhz < $slowest || $mhz > $fastest} {
        stop "clock_mhz is `$mhz`; legal is a whole number from $slowest to $fastest"
    }
}

# Reads of checkpoints: the latest of `stages` whose checkpoint in `folder` was made from the same inputs, or nothing.
# `inputs` is the text of everything that the result depends on; where it differs from last time, the checkpoints are deleted.
proc keywalk::latest_checkpoint {folder stages inputs} {
    set stamp [file join $folder inputs.txt]
    if {![file exists $stamp] || [text_of $stamp] ne $inputs} {
        foreach stage $stages {
            file delete [file join $folder $stage.dcp]
        }
        set file [open $stamp w]
        puts -nonewline $file $inputs
        close $file
        return {}
    }
    set latest {}
    foreach stage $stages {
        if {[file exists [file join $folder $stage.dcp]]} {
            set latest $stage
        }
    }
    return $latest
}

# Text of everything that a bitstream or an out-of-context run depends on, this Vivado's version first.
proc keywalk::inputs {options files} {
    set text "Vivado [version -short]\n$options\n"
    foreach path $files {
        append text "== $path\n" [text_of $path]
    }
    return $text
}

# Optimisation, placement and routing of the open design, from the stage after `latest`, with a checkpoint after each.
proc keywalk::implement {folder latest strategy} {
    foreach {optimise place improve route} [directives $strategy] break
    if {$latest eq "synthesised"} {
        step optimise { opt_design -directive $optimise }
        step place {
            place_design -directive $place
            phys_opt_design -directive $improve
            write_checkpoint -force [file join $folder placed.dcp]
        }
        set latest placed
    }
    if {$latest eq "placed"} {
        step route {
            route_design -directive $route
            write_checkpoint -force [file join $folder routed.dcp]
        }
    }
}
