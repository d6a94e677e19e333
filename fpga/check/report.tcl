# What check.tcl and planted.tcl share: progress on a terminal, and results as JSON.

namespace eval report {
    # Only a terminal has a mode.
    variable is_terminal [expr {![catch {fconfigure stderr -mode}]}]
}

# Shows how far it is, on a terminal only, in a line that the next one replaces.
proc report::progress {text} {
    variable is_terminal
    if {$is_terminal} {
        puts -nonewline stderr "\r\x1b\[K[string range $text 0 76]"
        flush stderr
    }
}

# A line of the result, in place of the progress.
proc report::line {text} {
    progress {}
    puts $text
    flush stdout
}

# A text as a string of JSON, in ASCII. Half of a surrogate pair, which readers of JSON refuse, becomes U+FFFD.
proc report::json_string {text} {
    set json {}
    foreach character [split $text {}] {
        scan $character %c code
        if {$code >= 0x10000} {
            append json [format {\u%04x\u%04x} [expr {0xd7c0 + ($code >> 10)}] [expr {0xdc00 + ($code & 0x3ff)}]]
        } elseif {$code >= 0xd800 && $code < 0xe000} {
            append json {\ufffd}
        } elseif {$code < 0x20 || $code > 0x7e} {
            append json [format {\u%04x} $code]
        } elseif {$character in {\" \\}} {
            append json \\ $character
        } else {
            append json $character
        }
    }
    return "\"$json\""
}

# Writes rows as JSON: an array of objects. A row is a dictionary; values of `booleans` are true or false, others texts.
proc report::write {path rows booleans} {
    set objects {}
    foreach row $rows {
        set members {}
        dict for {name value} $row {
            set value [expr {$name in $booleans ? ($value ? "true" : "false") : [json_string $value]}]
            lappend members "[json_string $name]: $value"
        }
        lappend objects "  {[join $members {, }]}"
    }
    set file [open $path w]
    fconfigure $file -translation lf
    puts $file "\[\n[join $objects ",\n"]\n\]"
    close $file
}
