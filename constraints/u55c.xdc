# Alveo U55C: pins, clocks and configuration of the block design that ../fpga/tcl/block_design.tcl makes. The same facts, with
# their sources, are in ../fpga/cards/u55c.toml; `make fpga-check` compares both. No Vivado has read this file.

# PCIe. The transceivers of the lanes are placed by the IP.
set_property PACKAGE_PIN AR15 [get_ports pcie_refclk_clk_p*]
set_property PACKAGE_PIN AR14 [get_ports pcie_refclk_clk_n*]
create_clock -name pcie_refclk -period 10.000 [get_ports pcie_refclk_clk_p*]
set_property -dict {PACKAGE_PIN BF41 IOSTANDARD LVCMOS18 PULLTYPE PULLUP} [get_ports pcie_perst_n]
set_false_path -from [get_ports pcie_perst_n]

# The clock that the engine's is made from.
set_property -dict {PACKAGE_PIN BK10 IOSTANDARD LVDS} [get_ports system_clock_clk_p]
set_property -dict {PACKAGE_PIN BL10 IOSTANDARD LVDS} [get_ports system_clock_clk_n]
create_clock -name system_clock -period 10.000 [get_ports system_clock_clk_p]

# Held low: high tells the card's controller that the HBM is too hot.
set_property -dict {PACKAGE_PIN BE45 IOSTANDARD LVCMOS18} [get_ports hbm_cattrip]
set_false_path -to [get_ports hbm_cattrip]

# Configuration from the flash.
set_property CFGBVS GND [current_design]
set_property CONFIG_VOLTAGE 1.8 [current_design]
set_property CONFIG_MODE SPIx4 [current_design]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
set_property BITSTREAM.CONFIG.CONFIGFALLBACK ENABLE [current_design]
set_property BITSTREAM.CONFIG.EXTMASTERCCLK_EN DISABLE [current_design]
set_property BITSTREAM.CONFIG.CONFIGRATE 85.0 [current_design]
set_property BITSTREAM.CONFIG.SPI_32BIT_ADDR YES [current_design]
set_property BITSTREAM.CONFIG.SPI_BUSWIDTH 4 [current_design]
set_property BITSTREAM.CONFIG.SPI_FALL_EDGE YES [current_design]
set_property BITSTREAM.CONFIG.UNUSEDPIN PULLUP [current_design]
