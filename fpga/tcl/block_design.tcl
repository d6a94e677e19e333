# The block design of a card: engine, data mover, shell and probe in one module, PCIe IP, the engine's clock. `keywalk::block_design
# card clock_mhz` makes it in the open project, which has the Verilog of `keywalk_card`.

# Settings of the PCIe IP: XDMA as a bridge. The host's writes and reads of BAR 0 leave at M_AXI_B, what arrives at S_AXI_B
# becomes reads and writes of host memory. The block's location is left to the IP: public sources disagree about it.
proc keywalk::pcie_settings {card} {
    return [list \
        CONFIG.functional_mode AXI_Bridge \
        CONFIG.mode_selection Advanced \
        CONFIG.pl_link_cap_max_link_width [dict get $card pcie.link_width] \
        CONFIG.pl_link_cap_max_link_speed [dict get $card pcie.link_speed] \
        CONFIG.ref_clk_freq [dict get $card pcie.refclk_mhz]_MHz \
        CONFIG.en_gt_selection true \
        CONFIG.select_quad [dict get $card pcie.select_quad] \
        CONFIG.axi_data_width 512_bit \
        CONFIG.axi_addr_width 64 \
        CONFIG.axisten_freq 250 \
        CONFIG.en_axi_slave_if true \
        CONFIG.axibar_num 1 \
        CONFIG.axibar2pciebar_0 0x0000000000000000 \
        CONFIG.c_s_axi_supports_narrow_burst false \
        CONFIG.pf0_bar0_64bit true \
        CONFIG.pf0_bar0_scale Kilobytes \
        CONFIG.pf0_bar0_size 32 \
        CONFIG.pciebar2axibar_0 0x0000000000000000 \
        CONFIG.xdma_axilite_slave false \
        CONFIG.pf0_device_id 903F \
        CONFIG.pf0_msi_enabled true]
}

proc keywalk::block_design {card clock_mhz} {
    create_bd_design card

    # Ports.
    create_bd_intf_port -mode Slave -vlnv xilinx.com:interface:diff_clock_rtl:1.0 pcie_refclk
    set_property CONFIG.FREQ_HZ [expr {[dict get $card pcie.refclk_mhz] * 1000000}] [get_bd_intf_ports pcie_refclk]
    create_bd_intf_port -mode Slave -vlnv xilinx.com:interface:diff_clock_rtl:1.0 system_clock
    set_property CONFIG.FREQ_HZ [expr {[dict get $card clock.system_mhz] * 1000000}] [get_bd_intf_ports system_clock]
    create_bd_intf_port -mode Master -vlnv xilinx.com:interface:pcie_7x_mgt_rtl:1.0 pcie_lanes
    create_bd_port -dir I -type rst pcie_perst_n
    set_property CONFIG.POLARITY ACTIVE_LOW [get_bd_ports pcie_perst_n]

    # PCIe.
    create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf:2.2 refclk_buffer
    set_property CONFIG.C_BUF_TYPE IBUFDSGTE [get_bd_cells refclk_buffer]
    create_bd_cell -type ip -vlnv xilinx.com:ip:xdma:4.1 pcie
    set_property -dict [pcie_settings $card] [get_bd_cells pcie]
    connect_bd_intf_net [get_bd_intf_ports pcie_refclk] [get_bd_intf_pins refclk_buffer/CLK_IN_D]
    connect_bd_intf_net [get_bd_intf_ports pcie_lanes] [get_bd_intf_pins pcie/pcie_mgt]
    connect_bd_net [get_bd_pins refclk_buffer/IBUF_OUT] [get_bd_pins pcie/sys_clk_gt]
    connect_bd_net [get_bd_pins refclk_buffer/IBUF_DS_ODIV2] [get_bd_pins pcie/sys_clk]
    connect_bd_net [get_bd_ports pcie_perst_n] [get_bd_pins pcie/sys_rst_n]

    # The engine's clock.
    create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz:6.0 engine_clock
    set_property -dict [list \
        CONFIG.PRIM_SOURCE Differential_clock_capable_pin \
        CONFIG.PRIM_IN_FREQ [dict get $card clock.system_mhz] \
        CONFIG.CLKOUT1_REQUESTED_OUT_FREQ $clock_mhz \
        CONFIG.USE_RESET false] [get_bd_cells engine_clock]
    connect_bd_intf_net [get_bd_intf_ports system_clock] [get_bd_intf_pins engine_clock/CLK_IN1_D]

    # Engine, data mover and shell, with a probe at their streams and at the registers of the user's own logic: a card that a host
    # tests by itself. Whoever has packet logic connects it to `keywalk_card` instead.
    create_bd_cell -type module -reference keywalk_probed_card keywalk
    connect_bd_net [get_bd_pins engine_clock/clk_out1] [get_bd_pins keywalk/engine_aclk]
    connect_bd_net [get_bd_pins engine_clock/locked] [get_bd_pins keywalk/engine_aresetn]

    # They and PCIe. The IP's port for registers is AXI4 with 512 bits, that of the card is AXI4-Lite; its identifiers of
    # reads and writes have more bits than those that the IP's slave is known to have.
    foreach converter {register_converter memory_converter} {
        create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect:1.0 $converter
        set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1 CONFIG.NUM_CLKS 1} [get_bd_cells $converter]
    }
    connect_bd_net [get_bd_pins pcie/axi_aclk] [get_bd_pins keywalk/pcie_aclk] [get_bd_pins register_converter/aclk] \
        [get_bd_pins memory_converter/aclk]
    connect_bd_net [get_bd_pins pcie/axi_aresetn] [get_bd_pins keywalk/pcie_aresetn] \
        [get_bd_pins register_converter/aresetn] [get_bd_pins memory_converter/aresetn]
    connect_bd_intf_net [get_bd_intf_pins pcie/M_AXI_B] [get_bd_intf_pins register_converter/S00_AXI]
    connect_bd_intf_net [get_bd_intf_pins register_converter/M00_AXI] [get_bd_intf_pins keywalk/s_axil_host]
    connect_bd_intf_net [get_bd_intf_pins keywalk/m_axi_host] [get_bd_intf_pins memory_converter/S00_AXI]
    connect_bd_intf_net [get_bd_intf_pins memory_converter/M00_AXI] [get_bd_intf_pins pcie/S_AXI_B]
    connect_bd_net [get_bd_pins keywalk/usr_irq_req] [get_bd_pins pcie/usr_irq_req]
    connect_bd_net [get_bd_pins pcie/usr_irq_ack] [get_bd_pins keywalk/usr_irq_ack]

    # HBM is not used; its alarm is held low.
    if {[has_hbm $card]} {
        create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant:1.1 low
        set_property -dict {CONFIG.CONST_WIDTH 1 CONFIG.CONST_VAL 0} [get_bd_cells low]
        create_bd_port -dir O hbm_cattrip
        connect_bd_net [get_bd_pins low/dout] [get_bd_ports hbm_cattrip]
    }

    # Registers at 0 of BAR 0, the probe's at 16 KiB; all of host memory, address for address.
    assign_bd_address -offset 0x0 -range 32K -target_address_space [get_bd_addr_spaces pcie/M_AXI_B] \
        [get_bd_addr_segs keywalk/s_axil_host/reg0] -force
    assign_bd_address -offset 0x0 -range 0x00010000000000000000 -target_address_space \
        [get_bd_addr_spaces keywalk/m_axi_host] [get_bd_addr_segs pcie/S_AXI_B/BAR0] -force
    validate_bd_design
    save_bd_design
}
