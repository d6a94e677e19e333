# Stand-ins for the commands of Vivado that the scripts and constraints use. They know each command's syntax, the properties that
# can be set here with their legal values, the ports and interfaces of the IP and of the generated modules; what they do not know
# they refuse. Nothing is synthesised: files that Vivado would write are written empty.

namespace eval vivado {
    # Parts and board parts that can be named.
    variable parts {xcu50-fsvh2104-2-e xcu55c-fsvh2892-2L-e xcu200-fsgd2104-2-e xcu250-figd2104-2L-e xcu280-fsvh2892-2L-e}
    variable boards {
        xilinx.com:au50:part0:1.3 xilinx.com:au55c:part0:1.0 xilinx.com:au200:part0:1.3 xilinx.com:au250:part0:1.3
        xilinx.com:au280:part0:1.1
    }
    # Legal values of options: a list, or a regular expression after `~`.
    variable legal_options {
        opt_design,-directive {Default Explore ExploreArea AddRemap ExploreSequentialArea RuntimeOptimized ExploreWithRemap}
        place_design,-directive {Default Explore RuntimeOptimized Quick AltSpreadLogic_high ExtraTimingOpt}
        phys_opt_design,-directive {Default Explore AggressiveExplore AlternateReplication AggressiveFanoutOpt AddRetime RuntimeOptimized}
        route_design,-directive {Default Explore AggressiveExplore NoTimingRelaxation MoreGlobalIterations RuntimeOptimized Quick}
        synth_design,-flatten_hierarchy {none full rebuilt}
        synth_design,-mode {default out_of_context}
        get_timing_paths,-delay_type {max min min_max}
        get_timing_paths,-max_paths {~^[1-9][0-9]*$}
        create_bd_port,-dir {I O IO}
        create_bd_port,-type {clk ce rst intr data}
        create_bd_intf_port,-mode {Master Slave}
        create_bd_cell,-type {ip hier container module IP}
        create_clock,-period {~^[0-9]+(\.[0-9]+)?$}
        write_cfgmem,-format {mcs bin hex}
        write_cfgmem,-interface {SMAPx8 SMAPx16 SMAPx32 SERIALx1 SPIx1 SPIx2 SPIx4 SPIx8 BPIx8 BPIx16}
        write_cfgmem,-size {1 2 4 8 16 32 64 128 256 512 1024}
        assign_bd_address,-offset {~^0x[0-9A-Fa-f]+$}
        assign_bd_address,-range {~^(0x[0-9A-Fa-f]+|[0-9]+[KMGTPE])$}
    }
    # Properties by class of object, with legal values likewise.
    variable legal_properties {
        project,BOARD_PART {~^xilinx\.com:}
        file,synth_checkpoint_mode {None Singular Hierarchical}
        port,PACKAGE_PIN {~^[A-Z]{1,2}[0-9]{1,2}$}
        port,IOSTANDARD {LVCMOS12 LVCMOS15 LVCMOS18 LVDS DIFF_SSTL12 DIFF_POD12}
        port,PULLTYPE {PULLUP PULLDOWN KEEPER NONE}
        design,CFGBVS {GND VCCO}
        design,CONFIG_VOLTAGE {1.5 1.8 2.5 3.3}
        design,CONFIG_MODE {SPIx1 SPIx2 SPIx4 SPIx8 BPI16}
        design,BITSTREAM.GENERAL.COMPRESS {TRUE FALSE}
        design,BITSTREAM.CONFIG.CONFIGFALLBACK {ENABLE DISABLE}
        design,BITSTREAM.CONFIG.EXTMASTERCCLK_EN {DISABLE DIV-1 DIV-2 DIV-3 DIV-4 DIV-6 DIV-8 DIV-12 DIV-16 DIV-24 DIV-48}
        design,BITSTREAM.CONFIG.CONFIGRATE {2.7 5.3 8.0 10.6 21.3 31.9 36.4 51.0 56.7 63.8 72.9 85.0 102.0 127.5 170.0}
        design,BITSTREAM.CONFIG.SPI_32BIT_ADDR {YES NO}
        design,BITSTREAM.CONFIG.SPI_BUSWIDTH {1 2 4 8 NONE}
        design,BITSTREAM.CONFIG.SPI_FALL_EDGE {YES NO}
        design,BITSTREAM.CONFIG.UNUSEDPIN {PULLUP PULLDOWN PULLNONE}
        bd_intf_port,CONFIG.FREQ_HZ {~^[0-9]+$}
        bd_port,CONFIG.POLARITY {ACTIVE_LOW ACTIVE_HIGH}
        xdma,CONFIG.functional_mode {DMA AXI_Bridge}
        xdma,CONFIG.mode_selection {Basic Advanced}
        xdma,CONFIG.pl_link_cap_max_link_width {X1 X2 X4 X8 X16}
        xdma,CONFIG.pl_link_cap_max_link_speed {2.5_GT/s 5.0_GT/s 8.0_GT/s 16.0_GT/s}
        xdma,CONFIG.ref_clk_freq {100_MHz 125_MHz 250_MHz}
        xdma,CONFIG.en_gt_selection {true false}
        xdma,CONFIG.select_quad {~^GTY_Quad_[0-9]{3}$}
        xdma,CONFIG.axi_data_width {64_bit 128_bit 256_bit 512_bit}
        xdma,CONFIG.axi_addr_width {~^(3[2-9]|4[0-9]|5[0-9]|6[0-4])$}
        xdma,CONFIG.axisten_freq {62.5 125 250}
        xdma,CONFIG.en_axi_slave_if {true false}
        xdma,CONFIG.axibar_num {1 2 3 4 5 6}
        xdma,CONFIG.axibar2pciebar_0 {~^0x[0-9A-F]{16}$}
        xdma,CONFIG.pciebar2axibar_0 {~^0x[0-9A-F]{16}$}
        xdma,CONFIG.c_s_axi_supports_narrow_burst {true false}
        xdma,CONFIG.pf0_bar0_64bit {true false}
        xdma,CONFIG.pf0_bar0_scale {Kilobytes Megabytes Gigabytes}
        xdma,CONFIG.pf0_bar0_size {1 2 4 8 16 32 64 128 256 512}
        xdma,CONFIG.xdma_axilite_slave {true false}
        xdma,CONFIG.pf0_msi_enabled {true false}
        xdma,CONFIG.pf0_device_id {~^[0-9A-F]{4}$}
        util_ds_buf,CONFIG.C_BUF_TYPE {IBUFDS OBUFDS IOBUFDS IBUFDSGTE BUFG}
        clk_wiz,CONFIG.PRIM_SOURCE {Single_ended_clock_capable_pin Differential_clock_capable_pin Global_buffer No_buffer}
        clk_wiz,CONFIG.PRIM_IN_FREQ {~^[0-9]+(\.[0-9]+)?$}
        clk_wiz,CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {~^[0-9]+(\.[0-9]+)?$}
        clk_wiz,CONFIG.USE_RESET {true false}
        smartconnect,CONFIG.NUM_SI {~^([1-9]|1[0-6])$}
        smartconnect,CONFIG.NUM_MI {~^([1-9]|1[0-6])$}
        smartconnect,CONFIG.NUM_CLKS {~^[1-9]$}
        xlconstant,CONFIG.CONST_WIDTH {~^[1-9][0-9]*$}
        xlconstant,CONFIG.CONST_VAL {~^[0-9]+$}
    }
    # Ports of the IP: {direction kind}, and interfaces: {type mode protocol clock}; `any` takes what it is connected to. The last
    # element names a setting without which the interface is not there.
    variable ip {
        xilinx.com:ip:xdma:4.1 {
            pins {sys_clk {I clk} sys_clk_gt {I clk} sys_rst_n {I rst} axi_aclk {O clk} axi_aresetn {O rst} axi_ctl_aresetn {O rst}
                usr_irq_req {I data} usr_irq_ack {O data} user_lnk_up {O data} msi_enable {O data}}
            interfaces {pcie_mgt {pcie_7x_mgt_rtl Master {} {} {}}
                S_AXI_B {aximm Slave AXI4 axi_aclk {CONFIG.functional_mode AXI_Bridge CONFIG.en_axi_slave_if true}}
                M_AXI_B {aximm Master AXI4 axi_aclk {CONFIG.functional_mode AXI_Bridge}}
                S_AXI_LITE {aximm Slave AXI4LITE axi_aclk {CONFIG.xdma_axilite_slave true}}}
            segments {S_AXI_B/BAR0 S_AXI_LITE/CTL0}
        }
        xilinx.com:ip:util_ds_buf:2.2 {
            pins {IBUF_OUT {O clk} IBUF_DS_ODIV2 {O clk}}
            interfaces {CLK_IN_D {diff_clock_rtl Slave {} {} {CONFIG.C_BUF_TYPE IBUFDSGTE}}}
            segments {}
        }
        xilinx.com:ip:clk_wiz:6.0 {
            pins {clk_out1 {O clk} locked {O data}}
            interfaces {CLK_IN1_D {diff_clock_rtl Slave {} {} {CONFIG.PRIM_SOURCE Differential_clock_capable_pin CONFIG.USE_RESET false}}}
            segments {}
        }
        xilinx.com:ip:smartconnect:1.0 {
            pins {aclk {I clk} aresetn {I rst}}
            interfaces {S00_AXI {aximm Slave any aclk {}} M00_AXI {aximm Master any aclk {}}}
            segments {}
        }
        xilinx.com:ip:xlconstant:1.1 {pins {dout {O data}} interfaces {} segments {}}
    }
    variable state
}

# Forgets everything but what was written to files. `modules` is a dictionary from module to its ports, each {direction width};
# `attributes` from module to {port {clock|reset|interrupt buses}}; `registers` from module to names of its registers.
proc vivado::reset {modules attributes registers} {
    variable state
    array unset state
    array set state {project {} part {} design {} bd {} cells {} ports {} validated 0 top {} scope {} clocks {} properties {} counts {}}
    array set state {nets {} links {} addresses {} files {} constraints {} called {} calls {} exceptions {} slack 0.125 hold_slack 0.0625 boards_installed 1 parts_installed 1 version 2023.2}
    set state(modules) $modules
    set state(attributes) $attributes
    set state(registers) $registers
}

proc vivado::count {what} {
    variable state
    dict incr state(counts) $what
}

# Runs a command after its syntax was checked.
proc vivado::call {name args} {
    variable syntax
    variable legal_options
    variable state
    lappend state(called) $name
    count commands
    foreach {least most flags values} [dict get $syntax $name] break
    set options [dict create]
    set positional {}
    for {set i 0} {$i < [llength $args]} {incr i} {
        set word [lindex $args $i]
        if {[regexp {^-[a-z]} $word]} {
            set wanted 0
            if {[lsearch -exact $values $word] >= 0 || [lsearch -exact $values $word!] >= 0} {
                set wanted 1
            } elseif {[lsearch -exact [concat $flags -quiet -verbose] $word] < 0} {
                error "$name has no option $word"
            }
            if {[dict exists $options $word]} {
                error "$name has $word twice"
            }
            set value 1
            if {$wanted} {
                incr i
                if {$i >= [llength $args]} {
                    error "$name: $word has no value"
                }
                set value [lindex $args $i]
                check_value "$name $word" $legal_options $name,$word $value 0
            }
            dict set options $word $value
        } else {
            lappend positional $word
        }
    }
    foreach value $values {
        if {[string match *! $value] && ![dict exists $options [string trimright $value !]]} {
            error "$name needs [string trimright $value !]"
        }
    }
    if {[llength $positional] < $least || ($most >= 0 && [llength $positional] > $most)} {
        error "$name takes $least to [expr {$most < 0 ? "any number of" : $most}] arguments, it has [llength $positional]"
    }
    if {[llength [info procs ::vivado::do_$name]] == 0} {
        error "the stand-in does not know what $name does"
    }
    lappend state(calls) [list $name $options $positional]
    return [do_$name $options $positional]
}

# Checks a value against a table; `must` says whether the key has to be in it.
proc vivado::check_value {what table key value must} {
    if {![dict exists $table $key]} {
        if {$must} {
            error "$what: there is no such property"
        }
        return
    }
    set legal [dict get $table $key]
    if {[string match ~* $legal]} {
        if {![regexp -- [string range $legal 1 end] $value]} {
            error "$what: `$value` is not legal; it must match [string range $legal 1 end]"
        }
    } elseif {[lsearch -exact $legal $value] < 0} {
        error "$what: `$value` is not legal; legal are [join $legal {, }]"
    }
}

proc vivado::option {options name {default {}}} {
    if {[dict exists $options $name]} {
        return [dict get $options $name]
    }
    return $default
}

proc vivado::must_exist {path} {
    if {![file exists $path]} {
        error "file $path does not exist"
    }
}

proc vivado::write_empty {path} {
    if {![file isdirectory [file dirname $path]]} {
        error "directory [file dirname $path] does not exist"
    }
    close [open $path w]
    lappend state(written) [file tail $path]
}

proc vivado::need {what} {
    variable state
    if {$state($what) eq ""} {
        error "there is no open $what"
    }
}

# Whether a name matches a pattern as Vivado reads it: * and ? are wild, brackets are not.
proc vivado::matches {pattern name} {
    return [string match [string map {\\ \\\\ \[ \\\[ \] \\\]} $pattern] $name]
}

# Names of `all` that match any of the patterns, as objects of a class. Without a match it is an error unless -quiet is given.
proc vivado::find {class all options patterns} {
    set found {}
    foreach pattern [join $patterns] {
        set before [llength $found]
        foreach name $all {
            if {[matches $pattern $name] && [lsearch -exact $found $class:$name] < 0} {
                lappend found $class:$name
            }
        }
        if {[llength $found] == $before && ![dict exists $options -quiet]} {
            error "no $class matches `$pattern`"
        }
    }
    return $found
}

# Class and name of an object.
proc vivado::object {what object} {
    if {![regexp {^(project|design|file|port|pin|cell|clock|path|bd_[a-z_]+):(.*)$} $object -> class name]} {
        error "$what: `$object` is not an object"
    }
    return [list $class $name]
}

# Project and files.

proc vivado::do_version {options positional} {
    variable state
    return [expr {[dict exists $options -short] ? $state(version) : "Vivado v$state(version)"}]
}
proc vivado::do_get_parts {options patterns} {
    variable parts
    variable state
    return [find part [expr {$state(parts_installed) ? $parts : {}}] $options $patterns]
}
proc vivado::do_get_board_parts {options patterns} {
    variable boards
    variable state
    return [find board [expr {$state(boards_installed) ? $boards : {}}] $options $patterns]
}
proc vivado::check_part {part} {
    variable parts
    if {[lsearch -exact $parts $part] < 0} {
        error "part `$part` is not known"
    }
}
proc vivado::do_create_project {options positional} {
    variable state
    check_part [option $options -part]
    foreach {name folder} $positional break
    file mkdir $folder
    set state(project) $name
    set state(folder) $folder
    set state(part) [option $options -part]
    return project:$name
}
proc vivado::do_current_project {options positional} {
    variable state
    need project
    return project:$state(project)
}
proc vivado::do_add_files {options positional} {
    variable state
    need project
    set fileset [option $options -fileset sources_1]
    if {[lsearch -exact {sources_1 constrs_1 sim_1} $fileset] < 0} {
        error "there is no fileset $fileset"
    }
    foreach path [join $positional] {
        must_exist $path
        set kind [file extension $path]
        if {($fileset eq "constrs_1") != ($kind eq ".xdc")} {
            error "$path does not belong into $fileset"
        }
        lappend state([expr {$kind eq ".xdc" ? "constraints" : "files"}]) $path
    }
}
proc vivado::do_read_verilog {options positional} {
    variable state
    foreach path [join $positional] {
        must_exist $path
        lappend state(files) $path
    }
}
proc vivado::do_update_compile_order {options positional} {
    need project
}
proc vivado::do_get_files {options patterns} {
    variable state
    set names {}
    foreach path [concat $state(files) $state(constraints)] {
        lappend names [file tail $path]
    }
    return [find file $names $options $patterns]
}
proc vivado::do_generate_target {options positional} {
    variable state
    if {!$state(validated)} {
        error "the block design was not validated"
    }
    object generate_target [lindex $positional 1]
}
proc vivado::do_make_wrapper {options positional} {
    variable state
    if {![dict exists $options -top]} {
        error "make_wrapper needs -top here"
    }
    set design [file rootname [lindex [object make_wrapper [lindex $positional 0]] 1]]
    set state(wrapper) ${design}_wrapper
    set path [file join $state(folder) ${design}_wrapper.v]
    write_empty $path
    return $path
}

# Properties.

proc vivado::do_set_property {options positional} {
    if {[dict exists $options -dict]} {
        set pairs [dict get $options -dict]
        set objects [join $positional]
        if {[llength $pairs] % 2} {
            error "set_property -dict: `$pairs` is not a list of names and values"
        }
    } else {
        if {[llength $positional] < 3} {
            error "set_property takes name, value and objects, it has [llength $positional] arguments"
        }
        set pairs [lrange $positional 0 1]
        set objects [join [lrange $positional 2 end]]
    }
    if {[llength $objects] == 0} {
        error "set_property has no object"
    }
    foreach object $objects {
        foreach {name value} $pairs {
            set_one $object $name $value
        }
    }
}
proc vivado::set_one {object name value} {
    variable state
    variable legal_properties
    variable boards
    foreach {class item} [object set_property $object] break
    set kind $class
    if {$class eq "bd_cell"} {
        set kind [lindex [split [dict get $state(cells) $item vlnv] :] 2]
    }
    check_value "property $name of $item" $legal_properties $kind,$name $value 1
    if {$name eq "BOARD_PART" && [lsearch -exact $boards $value] < 0} {
        error "board part `$value` is not known"
    }
    if {$class eq "port" && $name eq "PACKAGE_PIN"} {
        dict for {other values} $state(properties) {
            if {$other ne $object && [dict exists $values PACKAGE_PIN] && [dict get $values PACKAGE_PIN] eq $value} {
                error "pin $value is given to $item and to [lindex [object set_property $other] 1]"
            }
        }
        count pins
    }
    count properties
    dict set state(properties) $object $name $value
}
proc vivado::do_get_property {options positional} {
    variable state
    foreach {name object} $positional break
    foreach {class item} [object get_property $object] break
    switch -exact -- $class,$name {
        path,SLACK { return [expr {$item eq "min" ? $state(hold_slack) : $state(slack)}] }
        clock,PERIOD { return 4.000 }
    }
    error "property $name of $item: there is no such property"
}

# The block design.

proc vivado::do_create_bd_design {options positional} {
    variable state
    need project
    set state(bd) [lindex $positional 0]
    lappend state(files) $state(bd).bd
}
proc vivado::new_name {name} {
    variable state
    need bd
    if {[dict exists $state(cells) $name] || [dict exists $state(ports) $name]} {
        error "`$name` is there twice"
    }
    set state(validated) 0
}
proc vivado::do_create_bd_cell {options positional} {
    variable state
    variable ip
    set name [lindex $positional 0]
    new_name $name
    switch -exact -- [option $options -type ip] {
        module {
            set module [option $options -reference]
            if {![dict exists $state(modules) $module]} {
                error "there is no module $module"
            }
            set is_there 0
            foreach path $state(files) {
                if {[file tail $path] eq "$module.v"} {
                    set is_there 1
                }
            }
            if {!$is_there} {
                error "module $module is in no file of the project"
            }
            dict set state(cells) $name [module_cell $module]
        }
        default {
            set vlnv [option $options -vlnv]
            if {![dict exists $ip $vlnv]} {
                error "there is no IP `$vlnv`"
            }
            dict set state(cells) $name [dict merge [dict get $ip $vlnv] [list vlnv $vlnv]]
        }
    }
    count cells
    return bd_cell:$name
}
# What a module offers in a block design: its pins, and the interfaces that Vivado infers from the names of its ports.
proc vivado::module_cell {module} {
    variable state
    set pins {}
    set interfaces {}
    set segments {}
    set attributes [dict get $state(attributes) $module]
    set ports [dict get $state(modules) $module]
    dict for {port facts} $ports {
        foreach {direction width} $facts break
        set kind data
        if {[dict exists $attributes $port]} {
            set kind [string map {clock clk reset rst interrupt data} [lindex [dict get $attributes $port] 0]]
        }
        dict set pins $port [list $direction $kind]
    }
    dict for {port facts} $ports {
        if {[regexp {^(.*)_(arvalid|tvalid)$} $port -> prefix signal]} {
            set mode [expr {[lindex $facts 0] eq "O" ? "Master" : "Slave"}]
            set clock {}
            dict for {candidate what} $attributes {
                if {[lindex $what 0] eq "clock" && [lsearch -exact [lindex $what 1] $prefix] >= 0} {
                    set clock $candidate
                }
            }
            if {$clock eq ""} {
                error "interface $prefix of $module belongs to no clock"
            }
            if {$signal eq "tvalid"} {
                dict set interfaces $prefix [list axis $mode {} $clock {}]
            } else {
                set protocol [expr {[dict exists $ports ${prefix}_arlen] ? "AXI4" : "AXI4LITE"}]
                set width [lindex [dict get $ports ${prefix}_rdata] 1]
                dict set interfaces $prefix [list aximm $mode $protocol $clock {} $width]
                if {$mode eq "Slave"} {
                    lappend segments $prefix/reg0
                }
            }
        }
    }
    return [dict create vlnv xilinx.com:module_ref:$module:1.0 pins $pins interfaces $interfaces segments $segments]
}
proc vivado::do_create_bd_port {options positional} {
    variable state
    set name [lindex $positional 0]
    new_name $name
    dict set state(ports) $name [list [option $options -dir] [option $options -type data]]
    return bd_port:$name
}
proc vivado::do_create_bd_intf_port {options positional} {
    variable state
    set name [lindex $positional 0]
    new_name $name
    set vlnv [option $options -vlnv]
    if {[lsearch -exact {xilinx.com:interface:diff_clock_rtl:1.0 xilinx.com:interface:pcie_7x_mgt_rtl:1.0} $vlnv] < 0} {
        error "there is no interface `$vlnv`"
    }
    dict set state(ports) $name [list interface [lindex [split $vlnv :] 2] [option $options -mode Slave]]
    return bd_intf_port:$name
}
proc vivado::do_get_bd_cells {options patterns} {
    variable state
    return [find bd_cell [dict keys $state(cells)] $options $patterns]
}
proc vivado::do_get_bd_ports {options patterns} {
    variable state
    set names {}
    dict for {name facts} $state(ports) {
        if {[lindex $facts 0] ne "interface"} {
            lappend names $name
        }
    }
    return [find bd_port $names $options $patterns]
}
proc vivado::do_get_bd_intf_ports {options patterns} {
    variable state
    set names {}
    dict for {name facts} $state(ports) {
        if {[lindex $facts 0] eq "interface"} {
            lappend names $name
        }
    }
    return [find bd_intf_port $names $options $patterns]
}
proc vivado::members {what} {
    variable state
    set names {}
    dict for {cell facts} $state(cells) {
        foreach name [expr {$what eq "segments" ? [dict get $facts segments] : [dict keys [dict get $facts $what]]}] {
            lappend names $cell/$name
        }
    }
    return $names
}
proc vivado::do_get_bd_pins {options patterns} {
    return [find bd_pin [members pins] $options $patterns]
}
proc vivado::do_get_bd_intf_pins {options patterns} {
    set found [find bd_intf_pin [members interfaces] $options $patterns]
    foreach object $found {
        interface $object
    }
    return $found
}
proc vivado::do_get_bd_addr_spaces {options patterns} {
    return [find bd_addr_space [members interfaces] $options $patterns]
}
proc vivado::do_get_bd_addr_segs {options patterns} {
    return [find bd_addr_seg [members segments] $options $patterns]
}
# Type, mode, protocol, clock and width of an interface; an error where a setting of its IP takes it away.
proc vivado::interface {object} {
    variable state
    foreach {class name} [object interface $object] break
    if {$class eq "bd_intf_port"} {
        foreach {- type mode} [dict get $state(ports) $name] break
        return [list $type [expr {$mode eq "Slave" ? "Master" : "Slave"}] {} {} {}]
    }
    if {$class ne "bd_intf_pin"} {
        error "$name is not an interface"
    }
    foreach {cell pin} [split $name /] break
    foreach {type mode protocol clock needs width} [dict get $state(cells) $cell interfaces $pin] break
    foreach {setting value} $needs {
        set is ""
        if {[dict exists $state(properties) bd_cell:$cell $setting]} {
            set is [dict get $state(properties) bd_cell:$cell $setting]
        }
        if {$is ne $value} {
            error "$name is there only with $setting $value; it is `$is`"
        }
    }
    return [list $type $mode $protocol $clock $width]
}
proc vivado::do_connect_bd_intf_net {options positional} {
    variable state
    foreach {first second} $positional break
    foreach {type1 mode1 protocol1 clock1 width1} [interface $first] break
    foreach {type2 mode2 protocol2 clock2 width2} [interface $second] break
    if {$type1 ne $type2} {
        error "$first is of type $type1, $second of type $type2"
    }
    # The lanes of PCIe have a master on the port's side too.
    if {$mode1 eq $mode2} {
        error "$first and $second are both $mode1"
    }
    if {$protocol1 ne $protocol2 && $protocol1 ne "any" && $protocol2 ne "any"} {
        error "$first is $protocol1, $second is $protocol2: a converter is missing"
    }
    if {$width1 ne "" && $width2 ne "" && $width1 != $width2} {
        error "$first has $width1 bits of data, $second has $width2"
    }
    foreach object [list $first $second] {
        if {[dict exists $state(links) $object]} {
            error "$object is connected twice"
        }
    }
    dict set state(links) $first $second
    dict set state(links) $second $first
    set state(validated) 0
    count connections
}
# Direction, as seen from inside the block design, kind and width of a pin or port.
proc vivado::pin {object} {
    variable state
    foreach {class name} [object pin $object] break
    if {$class eq "bd_port"} {
        foreach {direction kind} [dict get $state(ports) $name] break
        return [list [string map {I O O I} $direction] $kind 1]
    }
    if {$class ne "bd_pin"} {
        error "$name is neither pin nor port"
    }
    foreach {cell pin} [split $name /] break
    foreach {direction kind} [dict get $state(cells) $cell pins $pin] break
    set module [lindex [split [dict get $state(cells) $cell vlnv] :] 2]
    set width 1
    if {[dict exists $state(modules) $module $pin]} {
        set width [lindex [dict get $state(modules) $module $pin] 1]
    }
    return [list $direction $kind $width]
}
proc vivado::do_connect_bd_net {options positional} {
    variable state
    set objects [join $positional]
    if {[llength $objects] < 2} {
        error "connect_bd_net has [llength $objects] object"
    }
    set driver ""
    foreach object $objects {
        foreach {direction kind width} [pin $object] break
        if {$direction eq "O"} {
            if {$driver ne ""} {
                error "$driver and $object both drive the net"
            }
            set driver $object
            set drives $kind
            set drives_width $width
        }
    }
    if {$driver eq ""} {
        error "nothing drives the net of [join $objects {, }]"
    }
    foreach object $objects {
        if {$object eq $driver} continue
        foreach {direction kind width} [pin $object] break
        if {($kind eq "clk") != ($drives eq "clk")} {
            error "$driver is $drives, $object is $kind"
        }
        if {$width != $drives_width} {
            error "$driver has $drives_width bits, $object has $width"
        }
        if {[dict exists $state(nets) $object]} {
            error "$object is driven twice"
        }
        dict set state(nets) $object $driver
        count connections
    }
    set state(validated) 0
}
proc vivado::do_assign_bd_address {options positional} {
    variable state
    set space [option $options -target_address_space]
    set segment [join $positional]
    foreach {class from} [object assign_bd_address $space] break
    foreach {class to} [object assign_bd_address $segment] break
    if {[lindex [interface bd_intf_pin:$from] 1] ne "Master"} {
        error "$from is no master and has no address space"
    }
    set target [join [lrange [split $to /] 0 1] /]
    if {[reached bd_intf_pin:$from] ne "bd_intf_pin:$target"} {
        error "$from does not reach $target"
    }
    dict set state(addresses) $from [list $to [option $options -offset] [option $options -range]]
}
# The slave that a master reaches, through converters.
proc vivado::reached {object} {
    variable state
    while {[dict exists $state(links) $object]} {
        set object [dict get $state(links) $object]
        foreach {class name} [object reached $object] break
        foreach {cell pin} [split $name /] break
        if {$class ne "bd_intf_pin" || ![string match *:smartconnect:* [dict get $state(cells) $cell vlnv]]} {
            return $object
        }
        set object bd_intf_pin:$cell/M00_AXI
    }
    return ""
}
# The net that clocks an interface.
proc vivado::clock_of {object} {
    variable state
    foreach {class name} [object clock $object] break
    if {$class eq "bd_intf_port"} {
        return ""
    }
    set clock [lindex [interface $object] 3]
    if {$clock eq ""} {
        return ""
    }
    set pin bd_pin:[lindex [split $name /] 0]/$clock
    if {[lindex [pin $pin] 0] eq "O"} {
        return $pin
    }
    return [expr {[dict exists $state(nets) $pin] ? [dict get $state(nets) $pin] : ""}]
}
proc vivado::do_validate_bd_design {options positional} {
    variable state
    need bd
    dict for {cell facts} $state(cells) {
        dict for {name pin} [dict get $facts pins] {
            foreach {direction kind} $pin break
            if {$direction eq "I" && $kind ne "data" && ![dict exists $state(nets) bd_pin:$cell/$name]} {
                error "clock or reset $cell/$name is not driven"
            }
        }
        set is_of_keywalk [string match *:keywalk_probed_card:* [dict get $facts vlnv]]
        dict for {name interface} [dict get $facts interfaces] {
            set object bd_intf_pin:$cell/$name
            if {![dict exists $state(links) $object] && ![catch {interface $object}]} {
                error "interface $cell/$name is not connected"
            }
            if {[lrange $interface 0 1] eq "aximm Master" && ![string match *:smartconnect:* [dict get $facts vlnv]]
                && ![dict exists $state(addresses) $cell/$name] && ![catch {interface $object}]} {
                error "$cell/$name has no address"
            }
        }
        if {$is_of_keywalk} {
            set buses [dict keys [dict get $facts interfaces]]
            dict for {name pin} [dict get $facts pins] {
                set is_of_bus 0
                foreach bus $buses {
                    if {[string match ${bus}_* $name]} {
                        set is_of_bus 1
                    }
                }
                if {!$is_of_bus && [lindex $pin 0] eq "I" && ![dict exists $state(nets) bd_pin:$cell/$name]} {
                    error "$cell/$name is not driven"
                }
            }
        }
    }
    dict for {name facts} $state(ports) {
        set is_connected [expr {[dict exists $state(links) bd_intf_port:$name] || [dict exists $state(nets) bd_port:$name]}]
        foreach driver [dict values $state(nets)] {
            if {$driver eq "bd_port:$name"} {
                set is_connected 1
            }
        }
        if {!$is_connected} {
            error "port $name is not connected"
        }
    }
    dict for {first second} $state(links) {
        set clocks [list [clock_of $first] [clock_of $second]]
        if {[lindex $clocks 0] ne "" && [lindex $clocks 1] ne "" && [lindex $clocks 0] ne [lindex $clocks 1]} {
            error "$first has the clock [lindex $clocks 0], $second has [lindex $clocks 1]"
        }
    }
    set state(validated) 1
}
proc vivado::do_save_bd_design {options positional} {
    need bd
}

# The design.

# Ports of the top module that make_wrapper writes.
proc vivado::top_ports {} {
    variable state
    set names {}
    dict for {name facts} $state(ports) {
        switch -exact -- [lindex $facts 1],[lindex $facts 0] {
            diff_clock_rtl,interface {
                # The buffer of a transceiver's clock has vectors of one bit.
                set index [expr {[string match *refclk* $name] ? "\[0\]" : ""}]
                lappend names ${name}_clk_p$index ${name}_clk_n$index
            }
            pcie_7x_mgt_rtl,interface {
                foreach signal {rxn rxp txn txp} {
                    for {set lane 0} {$lane < 16} {incr lane} {
                        lappend names ${name}_$signal\[$lane\]
                    }
                }
            }
            default { lappend names $name }
        }
    }
    return $names
}
proc vivado::do_synth_design {options positional} {
    variable state
    set top [option $options -top]
    set part [option $options -part $state(part)]
    check_part $part
    if {$state(part) ne "" && $part ne $state(part)} {
        error "synth_design has part $part, the project has $state(part)"
    }
    set modules [dict create]
    foreach path $state(files) {
        if {[file extension $path] eq ".v"} {
            if {[dict exists $modules [file tail $path]]} {
                error "$path and [dict get $modules [file tail $path]] are two files of one module"
            }
            dict set modules [file tail $path] $path
        }
    }
    if {![dict exists $modules $top.v]} {
        error "top module `$top` is in no file"
    }
    set state(design) $top
    if {[option $options -mode default] eq "out_of_context"} {
        set state(top) [dict keys [dict get $state(modules) $top]]
    } else {
        set state(top) [top_ports]
    }
    foreach path $state(constraints) {
        read_constraints $path
    }
}
# Evaluates a file of constraints in an interpreter that has no commands but those that are legal there.
proc vivado::read_constraints {path} {
    set xdc [interp create]
    foreach command [interp eval $xdc {info commands}] {
        if {[lsearch -exact {set expr list} $command] < 0} {
            interp hide $xdc $command
        }
    }
    foreach command {
        set_property create_clock set_false_path set_max_delay set_bus_skew get_ports get_cells get_clocks get_pins get_property
        current_design
    } {
        interp alias $xdc $command {} ::vivado::call $command
    }
    # These functions of `expr` are procedures that use hidden commands.
    foreach function {min max} {
        interp alias $xdc ::tcl::mathfunc::$function {} ::tcl::mathfunc::$function
    }
    set failed [catch {interp eval $xdc [keywalk::text_of $path]} reason]
    interp delete $xdc
    if {$failed} {
        error "$path: $reason"
    }
}
proc vivado::do_current_design {options positional} {
    variable state
    need design
    return design:$state(design)
}
proc vivado::do_read_xdc {options positional} {
    variable state
    need design
    set path [lindex $positional 0]
    must_exist $path
    set module [option $options -ref]
    if {![dict exists $state(modules) $module]} {
        error "read_xdc -ref: there is no module `$module`"
    }
    set state(scope) $module
    set failed [catch {read_constraints $path} reason]
    set state(scope) ""
    if {$failed} {
        error $reason
    }
}
proc vivado::do_get_ports {options patterns} {
    variable state
    need design
    set names $state(top)
    if {$state(scope) ne ""} {
        set names [dict keys [dict get $state(modules) $state(scope)]]
    }
    return [find port $names $options $patterns]
}
proc vivado::cells {} {
    variable state
    if {$state(scope) eq ""} {
        error "cells are looked for only in constraints of a module"
    }
    set names {}
    foreach register [dict get $state(registers) $state(scope)] {
        lappend names ${register}_reg
    }
    return $names
}
proc vivado::do_get_cells {options patterns} {
    return [find cell [cells] $options $patterns]
}
proc vivado::do_get_pins {options patterns} {
    set names {}
    foreach cell [cells] {
        foreach pin {C CE CLR D PRE Q R S} {
            lappend names $cell/$pin
        }
    }
    return [find pin $names $options $patterns]
}
proc vivado::do_get_clocks {options patterns} {
    variable state
    if {![dict exists $options -of_objects]} {
        return [find clock $state(clocks) $options $patterns]
    }
    set found {}
    foreach object [dict get $options -of_objects] {
        foreach {class name} [object get_clocks $object] break
        if {$state(scope) ne "" && ![string match *clock $name] && ![string match *clk $name]} {
            error "$name of $state(scope) is no clock"
        }
        lappend found clock:$name
    }
    return $found
}
proc vivado::do_create_clock {options positional} {
    variable state
    set objects [join $positional]
    if {[llength $objects] != 1} {
        error "create_clock has [llength $objects] objects; without one the clock is virtual"
    }
    foreach {class name} [object create_clock [lindex $objects 0]] break
    set clock [option $options -name $name]
    if {[lsearch -exact $state(clocks) $clock] >= 0} {
        error "clock $clock is there twice"
    }
    lappend state(clocks) $clock
    dict set state(properties) $class:$name PERIOD [dict get $options -period]
    count clocks
}
# Ends of a path are objects, and there are some; what is asked of them is remembered, by module, command and end.
proc vivado::ends {what options {value 0}} {
    variable state
    set ends 0
    foreach name {-from -to} {
        if {[dict exists $options $name]} {
            incr ends
            if {[llength [dict get $options $name]] == 0} {
                error "$what $name has no object"
            }
            foreach object [dict get $options $name] {
                set end [lindex [object "$what $name" $object] 1]
                if {$name eq "-to" || $state(scope) eq ""} {
                    dict set state(exceptions) $state(scope) $what [string map {_reg/ / _reg {}} $end] $value
                }
            }
        }
    }
    if {$ends == 0} {
        error "$what has neither -from nor -to"
    }
    count exceptions
}
proc vivado::do_set_false_path {options positional} {
    ends set_false_path $options
}
proc vivado::do_set_max_delay {options positional} {
    ends set_max_delay $options [lindex $positional 0]
    if {![string is double -strict [lindex $positional 0]]} {
        error "set_max_delay: `[lindex $positional 0]` is no time"
    }
}
proc vivado::do_set_bus_skew {options positional} {
    ends set_bus_skew $options [lindex $positional 0]
    if {![string is double -strict [lindex $positional 0]]} {
        error "set_bus_skew: `[lindex $positional 0]` is no time"
    }
}
foreach step {opt_design place_design phys_opt_design route_design} {
    proc vivado::do_$step {options positional} {
        need design
    }
}
foreach report {report_timing_summary report_utilization report_bus_skew report_cdc report_methodology report_drc} {
    proc vivado::do_$report {options positional} {
        need design
        write_empty [option $options -file]
    }
}
proc vivado::do_get_timing_paths {options positional} {
    need design
    return path:[option $options -delay_type max]
}
proc vivado::do_write_checkpoint {options positional} {
    need design
    write_empty [lindex $positional 0]
}
proc vivado::do_open_checkpoint {options positional} {
    variable state
    must_exist [lindex $positional 0]
    set state(design) checkpoint
}
proc vivado::do_write_bitstream {options positional} {
    need design
    write_empty [lindex $positional 0]
}
proc vivado::do_write_cfgmem {options positional} {
    variable state
    set load [option $options -loadbit]
    if {[llength $load] != 3 || [lindex $load 0] ne "up" || ![regexp {^0x[0-9a-fA-F]+$} [lindex $load 1]]} {
        error "write_cfgmem -loadbit: `$load` is not `up 0x<address> <file>`"
    }
    must_exist [lindex $load 2]
    if {[lindex $load 1] >= [dict get $options -size] * 1048576} {
        error "write_cfgmem: address [lindex $load 1] is beyond the flash"
    }
    write_empty [lindex $positional 0]
}
