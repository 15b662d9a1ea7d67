// jit_none.cpp -- in place of jit_x64.cpp for processors that have no emitter: every program is left to the interpreter
#include "kernels/cpu/jit/grid_threads.h"
#include "kernels/cpu/jit/jit_x64.h"

namespace mt {

bool jit_isa(Isa&) { return false; }
std::unique_ptr<Code> compile(const ir::LaneProgram&, Isa, uint64_t) { return nullptr; }
std::vector<uint8_t> emit_threads(const Grid&, FindLoop*, ThreadCode&) { return {}; }
void* executable(const std::vector<uint8_t>&, size_t&) { return nullptr; }
std::string_view jit_setting() { return {}; }
std::string machine_code(const ir::LaneProgram&, Isa, uint64_t) { return {}; }

Code::~Code() = default;  // none is made
int64_t Code::run(void* const*, const double*, int64_t from, int64_t) const { return from; }

}  // namespace mt
