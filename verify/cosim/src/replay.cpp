// The bare loop around a Verilated model: sets inputs that were recorded, toggles the clock, and does nothing else. What
// the Rust bench costs is measured against it.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {
struct Input {
    void* target;
    std::uint32_t bytes;
    std::uint32_t words;
};
}  // namespace

// `values` holds, cycle by cycle, `words` 32-bit words of each input in order.
extern "C" void keywalk_replay(void (*eval)(void*), void* model, std::uint8_t* clock, const Input* inputs,
                               std::size_t input_count, const std::uint32_t* values, std::size_t cycles) {
    for (std::size_t cycle = 0; cycle < cycles; ++cycle) {
        for (std::size_t index = 0; index < input_count; ++index) {
            std::memcpy(inputs[index].target, values, inputs[index].bytes);
            values += inputs[index].words;
        }
        *clock = 0;
        eval(model);
        *clock = 1;
        eval(model);
    }
}
