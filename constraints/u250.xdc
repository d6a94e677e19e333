# Alveo U250: pins, clocks and configuration of the block design that ../fpga/tcl/block_design.tcl makes. The same facts, with
# their sources, are in ../fpga/cards/u250.toml; `make fpga-check` compares both. No Vivado has read this file.

# PCIe. The transceivers of the lanes are placed by the IP.
set_property PACKAGE_PIN AM11 [get_ports pcie_refclk_clk_p*]
set_property PACKAGE_PIN AM10 [get_ports pcie_refclk_clk_n*]
create_clock -name pcie_refclk -period 10.000 [get_ports pcie_refclk_clk_p*]
set_property -dict {PACKAGE_PIN BD21 IOSTANDARD LVCMOS12 PULLTYPE PULLUP} [get_ports pcie_perst_n]
set_false_path -from [get_ports pcie_perst_n]

# The clock that the engine's is made from.
set_property -dict {PACKAGE_PIN AY37 IOSTANDARD LVDS} [get_ports system_clock_clk_p]
set_property -dict {PACKAGE_PIN AY38 IOSTANDARD LVDS} [get_ports system_clock_clk_n]
create_clock -name system_clock -period 3.333 [get_ports system_clock_clk_p]

# Configuration from the flash.
set_property CFGBVS GND [current_design]
set_property CONFIG_VOLTAGE 1.8 [current_design]
set_property CONFIG_MODE SPIx4 [current_design]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
set_property BITSTREAM.CONFIG.CONFIGFALLBACK ENABLE [current_design]
set_property BITSTREAM.CONFIG.EXTMASTERCCLK_EN DISABLE [current_design]
set_property BITSTREAM.CONFIG.CONFIGRATE 63.8 [current_design]
set_property BITSTREAM.CONFIG.SPI_32BIT_ADDR YES [current_design]
set_property BITSTREAM.CONFIG.SPI_BUSWIDTH 4 [current_design]
set_property BITSTREAM.CONFIG.SPI_FALL_EDGE YES [current_design]
set_property BITSTREAM.CONFIG.UNUSEDPIN PULLUP [current_design]
