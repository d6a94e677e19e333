# Syntax of the Vivado commands that the scripts and constraints use, as Vivado's own help gives it: least and most positional
# arguments (-1: any number), options without a value, options with one (`!`: must be there). -quiet and -verbose are legal for all.

namespace eval vivado {
    variable syntax {
        add_files {0 -1 {-norecurse -force -scan_for_includes} {-fileset -of_objects -copy_to}}
        assign_bd_address {0 -1 {-boundary -master_boundary -external -force} {-target_address_space -dict
                -import_from_file -export_to_file -export_gui_to_file -offset -range -base_high -with_locktype}}
        connect_bd_intf_net {2 3 {} {-intf_net -boundary_type}}
        connect_bd_net {1 -1 {} {-net -boundary_type}}
        create_bd_cell {1 1 {} {-vlnv -type -reference -revision}}
        create_bd_design {1 1 {} {-dir -cell}}
        create_bd_intf_port {0 1 {} {-vlnv -mode}}
        create_bd_port {1 1 {} {-from -to -dir! -type -freq_hz}}
        create_clock {0 1 {-add} {-period! -name -waveform}}
        create_project {0 2 {-force -in_memory -ip -rtl_kernel} {-part}}
        current_design {0 1 {} {}}
        current_project {0 1 {} {}}
        generate_target {2 2 {-force} {}}
        get_bd_addr_segs {0 1 {-regexp -hierarchical -excluded -addressed -unaddressed -addressing -addressables}
                {-filter -of_objects -with_locktype}}
        get_bd_addr_spaces {0 1 {-regexp -hierarchical} {-filter -of_objects}}
        get_bd_cells {0 1 {-regexp -hierarchical} {-filter -of_objects}}
        get_bd_intf_pins {0 1 {-regexp -hierarchical} {-filter -of_objects}}
        get_bd_intf_ports {0 1 {-regexp} {-filter -of_objects}}
        get_bd_pins {0 1 {-regexp -hierarchical} {-filter -of_objects}}
        get_bd_ports {0 1 {-regexp} {-filter -of_objects}}
        get_board_parts {0 -1 {-regexp -nocase -latest_file_version -latest_hw_revision} {-filter}}
        get_cells {0 1 {-hierarchical -regexp -nocase -leaf -include_replicated_objects} {-hsc -filter -of_objects
                -match_style}}
        get_clocks {0 1 {-regexp -nocase -include_generated_clocks} {-filter -of_objects -match_style}}
        get_files {0 1 {-regexp -nocase -references -all} {-filter -compile_order -used_in -of_objects}}
        get_parts {0 1 {-regexp} {-filter -of_objects}}
        get_pins {0 1 {-hierarchical -regexp -nocase -leaf -include_replicated_objects} {-hsc -filter -of_objects -match_style}}
        get_ports {0 1 {-regexp -nocase -scoped_to_current_instance -no_traverse -prop_thru_buffers} {-filter
                -of_objects -match_style}}
        get_property {2 2 {-min -max} {}}
        get_timing_paths {0 0 {-setup -hold -unique_pins -no_report_unconstrained -user_ignored -routable_nets -regexp
                -nocase} {-from -rise_from -fall_from -to -rise_to -fall_to -through -rise_through -fall_through
                -delay_type -max_paths -nworst -slack_lesser_than -slack_greater_than -group -sort_by -filter -cell}}
        make_wrapper {1 1 {-top -testbench -inst_template -import -force} {-fileset}}
        open_checkpoint {1 1 {-ignore_timing} {-part}}
        opt_design {0 0 {-retarget -propconst -sweep -bram_power_opt -remap -aggressive_remap -resynth_remap
                -resynth_area -resynth_seq_area -muxf_remap -bufg_opt -mbufg_opt -shift_register_opt -dsp_register_opt
                -control_set_merge -control_set_opt -merge_equivalent_drivers -carry_remap -debug_log
                -property_opt_only} {-directive -hier_fanout_limit -srl_remap_modes}}
        phys_opt_design {0 0 {-fanout_opt -placement_opt -routing_opt -slr_crossing_opt -insert_negative_edge_ffs
                -restruct_opt -interconnect_retime -lut_opt -casc_opt -cell_group_opt -critical_cell_opt
                -dsp_register_opt -bram_register_opt -uram_register_opt -bram_enable_opt -shift_register_opt -hold_fix
                -aggressive_hold_fix -retime -critical_pin_opt -clock_opt -tns_cleanup -sll_reg_hold_fix}
                {-force_replication_on_nets -directive -path_groups}}
        place_design {0 0 {-no_timing_driven -timing_summary -unplace -post_place_opt -no_psip -no_bufg_opt
                -ultrathreads} {-directive}}
        read_verilog {1 -1 {-sv} {-library}}
        read_xdc {1 1 {-quiet_diff_pairs -unmanaged -no_add} {-cells -ref -mode}}
        report_bus_skew {0 0 {-setup -hold -no_detailed_paths -unique_pins -sort_by_slack -input_pins -no_header -append
                -return_string -warn_on_violation} {-delay_type -max_paths -nworst -path_type -significant_digits -file
                -rpx -cells}}
        report_cdc {0 0 {-details -summary -all_checks_per_endpoint -no_header -show_waiver -no_waiver -waived -append
                -return_string} {-from -to -cells -severity -file -name}}
        report_drc {0 0 {-upgrade_cw -append -waived -no_waivers -return_string} {-name -checks -ruledecks -file -rpx}}
        report_methodology {0 0 {-append -waived -no_waivers -return_string} {-name -cells -checks -file -rpx
                -slack_lesser_than -merge_exceptions}}
        report_timing_summary {0 0 {-check_timing_verbose -no_detailed_paths -setup -hold -unique_pins -no_reused_label
                -input_pins -no_pr_attribute -no_pblock -routable_nets -report_unconstrained -no_header -append
                -return_string -warn_on_violation -datasheet} {-delay_type -max_paths -nworst -path_type
                -slack_lesser_than -significant_digits -file -name -cells -rpx}}
        report_utilization {0 0 {-append -evaluate_pblock -exclude_child_pblocks -exclude_non_assigned -return_string
                -slr -packthru -no_primitives -omit_locs -hierarchical -hierarchical_percentages} {-file -pblocks -cells
                -name -spreadsheet_file -spreadsheet_table -spreadsheet_depth -hierarchical_depth}}
        route_design {0 0 {-unroute -release_memory -physical_nets -tns_cleanup -no_timing_driven -preserve -delay
                -auto_delay -timing_summary -finalize -ultrathreads -eco} {-nets -pins -directive -max_delay
                -min_delay}}
        save_bd_design {0 1 {} {}}
        set_bus_skew {1 1 {} {-from -rise_from -fall_from -to -rise_to -fall_to -through -rise_through -fall_through}}
        set_false_path {0 0 {-setup -hold -rise -fall -reset_path} {-from -rise_from -fall_from -to -rise_to -fall_to
                -through -rise_through -fall_through}}
        set_max_delay {1 1 {-rise -fall -reset_path -datapath_only} {-from -rise_from -fall_from -to -rise_to -fall_to
                -through -rise_through -fall_through}}
        set_property {1 -1 {} {-dict}}
        synth_design {0 0 {-rtl -lint -dataflow -no_lc -rtl_skip_mlo -rtl_skip_ip -rtl_skip_constraints
                -keep_equivalent_registers -retiming -no_retiming -no_srlextract -assert -no_timing_driven -sfcu
                -debug_log} {-name -part -constrset -top -include_dirs -generic -verilog_define -flatten_hierarchy
                -gated_clock_conversion -directive -file -bufg -shreg_min_size -mode -fsm_extraction -srl_style
                -resource_sharing -cascade_dsp -control_set_opt_threshold -incremental_mode -max_bram -max_uram -max_dsp
                -max_bram_cascade_height -max_uram_cascade_height}}
        update_compile_order {0 0 {-force_gui} {-fileset}}
        validate_bd_design {0 0 {-force -include_pfm} {-design -steps}}
        version {0 0 {-short} {}}
        write_bitstream {1 1 {-force -raw_bitfile -no_binary_bitfile -mask_file -readback_file -logic_location_file
                -bin_file -no_partial_bitfile} {-reference_bitfile -cell}}
        write_cfgmem {1 1 {-force -checksum -disablebitswap} {-format! -size! -interface -loadbit -loaddata}}
        write_checkpoint {0 1 {-force -logic_function_stripped -encrypt} {-cell -key}}
    }
}
